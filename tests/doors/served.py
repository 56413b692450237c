"""`cef serve openenv` in a process of its own, for tests."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def served(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server, given these options, and its address; the caller ends it."""
    command = [sys.executable, "-m", "cef_env.cli", "serve", "openenv", *words, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stderr is not None
        found = None
        while found is None:
            line = server.stderr.readline()
            assert line, "the server ended before it said where it is"
            found = re.search(r"http://[\d.]+:\d+", line)
        yield server, found[0]
