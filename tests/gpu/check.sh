#!/usr/bin/env bash
# The whole of training on one CUDA card, from nothing, in less than eight minutes; the last thing on stdout is a
# summary in JSON, and the exit status says whether every check in it held.
#
#   tests/gpu/check.sh                          needs a card
#   CEF_GPU_CHECK_TINY=1 tests/gpu/check.sh     the same path in small, on whatever there is (a minute or two)
#
# PYTHON names the interpreter (by default .venv/bin/python if it is there, else python3). It needs torch,
# transformers and the plain dependencies; the package need not be installed. OUT keeps the run; by default it
# goes to a temporary folder and is removed.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
if [[ -z ${PYTHON:-} ]]; then
    PYTHON=python3
    [[ -x .venv/bin/python ]] && PYTHON=.venv/bin/python
fi
if ! "$PYTHON" -c "import torch, transformers, safetensors, jinja2, gymnasium, pydantic, yaml, rich, typer"; then
    echo "error: $PYTHON lacks what the extra \"train\" of pyproject.toml installs; set PYTHON" >&2
    exit 2
fi
if [[ -z ${OUT:-} ]]; then
    OUT=$(mktemp -d)
    trap 'rm -rf "$OUT"' EXIT
fi
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 CUBLAS_WORKSPACE_CONFIG=:4096:8
timeout --signal=INT --kill-after=10 "${LIMIT_S:-470}" "$PYTHON" tests/gpu/check.py "$OUT/run"
