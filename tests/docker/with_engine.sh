#!/usr/bin/env bash
# Runs a command with a Docker engine and an image for the tier `docker`: those of the environment where it names
# some, else an engine of our own, which ends with the command, and an image of this machine's files.
#
#   [REQUIRED=1] PYTHON=python3 tests/docker/with_engine.sh COMMAND...
#
# Where none can be had, the command runs without; with REQUIRED=1 it does not run, and the exit status is 1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
engine=$(mktemp -d)

finish() {
    if [ -s "$engine/pid" ]; then
        pid=$(cat "$engine/pid")
        kill "$pid"
        while kill -0 "$pid" 2> /dev/null; do sleep 0.1; done
    fi
    rm -rf "$engine"
}
trap finish EXIT

answers() { timeout 5 docker version > /dev/null 2>&1; }

if ! answers; then
    if host=$("$here/start_engine.sh" "$engine" 2> "$engine/why"); then
        export DOCKER_HOST="$host"
    fi
    cat "$engine/why" >&2
fi
if [ -z "${CEF_DOCKER_IMAGE:-}" ] && answers; then
    if "${PYTHON:-python3}" "$here/make_image.py" --tag cef-test:latest; then
        export CEF_DOCKER_IMAGE=cef-test:latest
    fi
fi
if [ -n "${REQUIRED:-}" ] && [ -z "${CEF_DOCKER_IMAGE:-}" ]; then
    echo "no Docker engine or no image: nothing was tested" >&2
    exit 1
fi
"$@"
