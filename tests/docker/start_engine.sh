#!/usr/bin/env bash
# A Docker engine of our own for the tests of the tier `docker`, where none is running.
#
#   tests/docker/start_engine.sh FOLDER
#
# Prints the DOCKER_HOST of the engine; its pid is in FOLDER/pid: `kill "$(cat FOLDER/pid)"` ends it. Installs
# it first (Debian, as root). Without networks or iptables: our containers have none. When it cannot be had, it
# says why in one line on stderr and exits with 1.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)

no() { echo "no Docker engine: $1" >&2; exit 1; }

[ "$(id -u)" = 0 ] || no "starting one takes root"
if ! command -v dockerd > /dev/null; then
    command -v apt-get > /dev/null || no "dockerd is not installed, and this is no Debian"
    # The package would start an engine as a service of the machine; policy-rc.d forbids that.
    guard=/usr/sbin/policy-rc.d
    [ -e "$guard" ] && guard= || printf '#!/bin/sh\nexit 101\n' > "$guard"
    [ -z "$guard" ] || chmod +x "$guard"
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        docker.io containerd runc iptables) > "$folder/install.log" 2>&1 || failed=1
    [ -z "$guard" ] || rm -f "$guard"
    [ -z "${failed:-}" ] || no "the packages docker.io, containerd and runc cannot be installed (see $folder/install.log)"
fi
dockerd --bridge=none --iptables=false --data-root "$folder/data" --exec-root "$folder/exec" \
    --pidfile "$folder/pid" -H "unix://$folder/socket" > "$folder/log" 2>&1 < /dev/null &
pid=$!
for _ in $(seq 100); do
    kill -0 "$pid" 2> /dev/null || no "dockerd ended: $(tail -n 1 "$folder/log")"
    if DOCKER_HOST="unix://$folder/socket" timeout 5 docker version > /dev/null 2>&1; then
        echo "unix://$folder/socket"
        exit 0
    fi
    sleep 0.2
done
kill "$pid"
no "dockerd does not answer within 20 s: $(tail -n 1 "$folder/log")"
