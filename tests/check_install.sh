#!/usr/bin/env bash
# Installs one distribution as a stranger would, without extras, into an environment of its own, and plays there.
# Command: tests/check_install.sh dist/cef_env-0.1.0-py3-none-any.whl (`make release` does it for wheel and sdist)
set -euo pipefail
file=$(realpath "$1")
script=$(realpath "$(dirname "$0")/check_install.py")
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "$file"
cd "$venv"
bin/python -I "$script"
bin/cef problems list "builtin:hard?count=2" > /dev/null
echo "$(basename "$file"): installed, imported, played; no torch"
