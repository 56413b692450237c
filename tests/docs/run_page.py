"""Runs the blocks of one page in the current folder: JSON on stdin, and status 1 with the reason on stderr.

A script of its own, so that a page has a process, a folder and a namespace for itself. Command: see
`test_pages.py`.
"""

import contextlib
import doctest
import io
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any


def run(block: dict[str, Any], namespace: dict[str, Any]) -> str:
    """What the block prints."""
    if block["title"]:
        path = Path(block["title"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block["text"])
        return ""
    if block["language"] == "bash":
        command = ["bash", "-euo", "pipefail", "-c", block["text"]]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise SystemExit(f"{block['place']}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout
    out = io.StringIO()
    source = "\n" * (block["line"] - 1) + block["text"]  # so that a traceback names the line of the page
    with contextlib.redirect_stdout(out):
        exec(compile(source, block["page"], "exec"), namespace)
    return out.getvalue()


def main() -> None:
    sys.path[0] = os.getcwd()  # as `python FILE` in this folder
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in json.load(sys.stdin):
        try:
            printed = run(block, namespace)
        except Exception:  # noqa: BLE001 - whatever the page raises
            traceback.print_exc()
            raise SystemExit(f"{block['place']}: failed") from None
        expected = block["output"]
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if expected is not None and not doctest.OutputChecker().check_output(expected, printed, options):
            raise SystemExit(f"{block['place']}: the page shows\n{expected}\nit prints\n{printed}")


if __name__ == "__main__":
    main()
