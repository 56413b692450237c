"""Terminals for tests, and what many tests ask of them."""

import pytest

from cef_env.sandbox.pty_line import PtyLine
from cef_env.sandbox.terminal import CommandResult, Terminal, TerminalLimits

TIERS = ("cgroups", "rlimits", "docker")
FILES = {"statement.md": b"Add two numbers.\n", "samples/1.in": b"1 2\n"}
LIMITS = TerminalLimits(timeout_s=20.0, output_characters=4000)
SHORT = TerminalLimits(timeout_s=0.4, output_characters=4000)


def namespaces(terminal: Terminal) -> PtyLine:
    """The line of a terminal in bubblewrap, for tests of what only that confines; skips others."""
    if not isinstance(terminal._line, PtyLine):
        pytest.skip("only in bubblewrap")
    return terminal._line


def kill_sandbox(terminal: Terminal) -> None:
    if isinstance(terminal._line, PtyLine):
        terminal._line._process.kill()
        terminal._line._process.wait()
    else:
        terminal._line._container.kill()  # type: ignore[attr-defined]


def shown(terminal: Terminal, command: str) -> str:
    result = terminal.run(command)
    assert not result.stopped, result
    assert not result.restarted, result
    return result.output


def still_works(terminal: Terminal) -> None:
    """The terminal answers, and with the answer to this command."""
    assert terminal.run("echo $((6 * 7))") == CommandResult("42\n", 0, "/work", False, 0, False)
