"""Talking to an interactive bash: send a command, know when it has ended, stop it, see the shell end.

A command is known to have ended by a mark that the shell itself prints: a random key, which travels on the
last line of the command and so lies in the shell's memory before the command runs, the exit status and the
folder. Where bash runs, and how, is the business of a `Line`: see `pty_line.py` and `docker_terminal.py`.
"""

import re
import secrets
import signal
import time
from dataclasses import dataclass
from typing import Protocol

from cef_env.sandbox.transcript import Transcript, printable
from cef_env.sandbox.types import BoxError

START_TIMEOUT_S = 30.0
COMMAND_BYTES = 16 << 20
"""The longest command that is sent."""
PIECE_BYTES = 1000
"""Of a command on one line, where each may take four: what lines of a terminal in its canonical mode hold
beyond 4095 is lost."""
READ_BYTES = 1 << 16
_MARK_BYTES = 1 << 15
"""More than any mark is long; a mark that does not end within is the program's own text."""
SCRIPT_FD = 62
LADDER = ((signal.SIGINT, 0.5), (signal.SIGQUIT, 0.3), (signal.SIGTERM, 0.3), (signal.SIGKILL, 0.7))
"""What a command over its time is sent, and how long each may take to bring the shell back."""
LOOK_S = 0.25
"""How often a running command's CPU time is looked at."""
# Everything that another command could have left and that would hide or disturb the mark.
_RESET = "set +o history +o histexpand +o verbose; PS1= PS2= PROMPT_COMMAND="


@dataclass(frozen=True, slots=True)
class TerminalLimits:
    """Limits of one terminal."""

    timeout_s: float = 10.0
    """Wall time of one command; then it is interrupted, and killed when it does not heed that."""
    cpu_s: float = 120.0
    """CPU time of everything in the terminal, over its whole life; then commands are refused. Where there are
    no control groups it bounds each single process instead."""
    memory_bytes: int = 512 << 20
    """Of all processes together. Where there are no control groups: of the data of each single process."""
    processes: int = 64
    """Processes and threads at one time."""
    files_bytes: int = 64 << 20
    """All files in the working folder, /tmp and /dev/shm together."""
    files: int = 8192
    """How many files and folders there may be."""
    output_characters: int = 20_000
    """Of one command that are shown; more is cut in the middle."""
    output_bytes: int = 64 << 20
    """Of one command that are read at all; then it is stopped as if its time were over."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What one command did."""

    output: str
    """stdout and stderr as the terminal shows them, cut in the middle when long. No control characters but
    newline and tab: escape sequences are gone, others stand as `^G`."""
    exit_status: int | None
    """None when it was stopped."""
    folder: str
    """Working directory afterwards."""
    stopped: bool
    """Over its time (or printing without end): it was interrupted."""
    cut: int
    """Characters left out of the middle."""
    restarted: bool
    """The shell had ended (`exit`, `set -e`, killed) and a new one was started in the same files."""


class ShellEnded(Exception):  # noqa: N818 - an event, not an error
    """The shell is gone, the files are not. `status` as in `$?`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Line(Protocol):
    """The way to a bash. Every method raises `BoxError` when the sandbox itself is gone."""

    preamble: str
    """A command substitution that puts the terminal in order, before every mark, and is empty; or nothing."""

    @property
    def alive(self) -> bool:
        """Whether the sandbox still runs."""

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises `ShellEnded`."""

    def read(self, timeout_s: float) -> bytes:
        """What there is, at most `READ_BYTES`; empty at the time-out. After the last byte: `ShellEnded`."""

    def send_signal(self, number: signal.Signals) -> None:
        """INT and QUIT go to the shell and its children, as Ctrl-C does; TERM and KILL not to the shell."""

    def make_room(self) -> bool:
        """End all processes but the shell if they leave hardly room for more; whether it did."""

    def start_shell(self, end: bool) -> None:
        """Start the first, or the next, shell in the same files; first end the present one if `end`."""

    def cpu_s(self) -> float:
        """CPU time of everything so far; 0 where nobody counts it."""

    def read_file(self, path: str, most: int) -> bytes | None:
        """The begin of a regular file in the working folder, by its path in there; else None or OSError."""

    def close(self) -> None:
        """End everything. Idempotent."""


# An `&` that may start a background job.
_BACKGROUND = re.compile(rb"(?<![&<>|])&(?![&>])")
# What a byte is inside $'...'. A `!` would be expanded from the history if a command turned that on.
_QUOTED = {byte: f"\\{byte:03o}" for byte in range(256) if not 32 <= byte < 127 or byte in b"!'\\"}


def quoted(command: bytes) -> str:
    """`command` as bash words that together mean just it, over as many short lines as it needs."""
    starts = range(0, len(command) or 1, PIECE_BYTES)
    pieces = (command[start : start + PIECE_BYTES].decode("latin-1").translate(_QUOTED) for start in starts)
    return "\\\n".join(f"$'{piece}'" for piece in pieces)


class Shell:
    """A bash on a `Line`, ready for one command after the other."""

    def __init__(self, line: Line, limits: TerminalLimits, home: str) -> None:
        self.line = line
        self.limits = limits
        self.home = home
        self.folder = home
        self.leftover = b""
        """What background jobs printed between the last mark and now: part of the next command's output."""
        self._status = 0
        self._start(end=False)

    def run(self, command: str) -> CommandResult:
        """Run one command; a shell that ended meanwhile is replaced."""
        refusal, text = "", b""
        try:
            text = command.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            refusal = f"the command is not valid Unicode: {error.reason}"
        if b"\0" in text:
            refusal = "the command contains a NUL character, which no shell can take"
        elif len(text) > COMMAND_BYTES:
            refusal = f"the command is longer than {COMMAND_BYTES >> 20} MiB"
        if refusal:
            return CommandResult(f"[not run: {refusal}]", 2, self.folder, False, 0, False)
        if self.limits.cpu_s < self.line.cpu_s():
            note = f"[the CPU time of this terminal, {self.limits.cpu_s:g} s, is used up]"
            return CommandResult(note, None, self.folder, True, 0, False)
        return _Run(self, text).result()

    def script(self, command: bytes, mark: bytes) -> bytes:
        """A command for bash and a mark after it; all of it is read before any of it is executed."""
        # $? of the last command, which its mark has overwritten.
        status = f"(exit {self._status}); " if self._status else ""
        if not _BACKGROUND.search(command):
            return f"{status}eval {quoted(command)} </dev/null; ".encode() + mark
        # Within `source`, bash does not print job numbers and process ids. Not for every command: bash 5.2
        # corrupts its memory there when a command ends within `$(`.
        source = f"{status}source /dev/fd/{SCRIPT_FD} {SCRIPT_FD}<<'_' </dev/null; "
        return source.encode() + mark + f"eval {quoted(command)}\n_\n".encode()

    def mark(self, key: str, number: int) -> bytes:
        """The line that makes the shell print a mark; cut in two there, it is not one itself."""
        # To descriptor 0, which is the terminal whatever became of stdout, and in one piece: background jobs
        # print too. What traps print here is lost.
        halves = f"{key[:8]} {key[8:]}"
        values = f'$? "${{PWD:0:4096}}{self.line.preamble}" {halves}'
        show = f"\\builtin printf '%s%s{number}:%d:%s:%s%s' {halves} {values} >&0"
        return f"{{ {show}; {_RESET}; }} >/dev/null 2>&1\n".encode()

    def adopt(self, status: int, folder: str) -> None:
        """What the shell's next command will find."""
        self._status, self.folder = status, folder

    def restart(self, end: bool) -> None:
        """A new shell in the same files, in its home."""
        self._status, self.folder = 0, self.home
        self._start(end)

    def _start(self, end: bool) -> None:
        key = secrets.token_hex(16)
        try:
            self.line.start_shell(end)
            self.line.write(
                f": {self.line.preamble}; set +o monitor; unset HISTFILE; {_RESET}; history -c; ".encode()
                + self.mark(key, 0)
            )
            seen, deadline = b"", time.monotonic() + START_TIMEOUT_S
            while f":{key}".encode() not in seen:
                if time.monotonic() > deadline:
                    raise BoxError(f"the shell did not start within {START_TIMEOUT_S:.0f} s")
                seen = (seen + self.line.read(1.0))[-_MARK_BYTES:]
        except ShellEnded as ended:
            raise BoxError(f"the shell ended at its start, with status {ended.status}") from None


class _Run:
    """One command, from the first byte sent to the mark seen, or the new shell started."""

    def __init__(self, shell: Shell, command: bytes) -> None:
        self.shell = shell
        self.line = shell.line
        self.command = command
        self.transcript = Transcript(shell.limits.output_characters)
        self.key = secrets.token_hex(16)
        self._marks = 0
        """The number of the last mark asked for: an earlier one may arrive late, and is no end."""
        self._mark = re.compile(rf"{self.key}(\d+):(\d+):(.*?):{self.key}".encode(), re.DOTALL)
        self._pending, shell.leftover = shell.leftover, b""
        self._left = shell.limits.output_bytes
        self._notes: list[str] = []

    def result(self) -> CommandResult:
        shell, stopped = self.shell, False
        try:
            end = self._await(time.monotonic() + shell.limits.timeout_s, self.command)
            if end is None:
                stopped = True
                if self._left <= 0:
                    self._notes.append(f"more than {shell.limits.output_bytes >> 20} MiB of output: stopped")
                end = self._stop()
                if self.line.make_room():
                    self._notes.append("too many processes: all but the shell were ended")
        except ShellEnded as ended:
            return self._replaced(None if stopped else ended.status, stopped, end_shell=False)
        if end is None:
            return self._replaced(None, stopped=True, end_shell=True)
        status, folder = end
        shell.adopt(status, folder)
        shell.leftover = self._pending
        return self._report(None if stopped else status, stopped, restarted=False)

    def _replaced(self, status: int | None, stopped: bool, end_shell: bool) -> CommandResult:
        self.transcript.feed(self._pending)
        self.shell.restart(end_shell)
        return self._report(status, stopped, restarted=True)

    def _report(self, status: int | None, stopped: bool, restarted: bool) -> CommandResult:
        output = "".join([self.transcript.finish(), *(f"[{note}]\n" for note in self._notes)])
        return CommandResult(output, status, self.shell.folder, stopped, self.transcript.cut, restarted)

    def _stop(self) -> tuple[int, str] | None:
        """Interrupt, then quit, terminate, kill, until the shell answers; None when it never does."""
        for number, patience in LADDER:
            self._left = self.shell.limits.output_bytes
            self.line.send_signal(number)
            # A signal may have taken the mark with the rest of the line: ask for another one.
            end = self._await(time.monotonic() + patience, None)
            if end:
                return end
        return None

    def _await(self, deadline: float, command: bytes | None) -> tuple[int, str] | None:
        """Send a command, if any, and a mark after it; status and folder when that comes in time."""
        shell = self.shell
        self._marks += 1
        mark = shell.mark(self.key, self._marks)
        self.line.write(mark if command is None else shell.script(command, mark))
        while True:
            left = deadline - time.monotonic()
            if (
                left <= 0
                or self._left <= 0
                or (command is not None and self.line.cpu_s() > shell.limits.cpu_s)
            ):
                return None
            data = self.line.read(min(left, LOOK_S))
            if data:
                self._left -= len(data)
                end = self._take(data)
                if end:
                    return end

    def _take(self, data: bytes) -> tuple[int, str] | None:
        """Pass on what is output; hold back what may be the begin of a mark."""
        self._pending += data
        while match := self._mark.search(self._pending):
            self.transcript.feed(self._pending[: match.start()])
            self._pending = self._pending[match.end() :]
            if int(match[1]) == self._marks:
                return int(match[2]), printable(match[3].decode("utf-8", "surrogateescape"))
        start = self._pending.find(self.key.encode())
        if start < 0:
            start = max(0, len(self._pending) - len(self.key))
        elif len(self._pending) - start > _MARK_BYTES:
            start += 1
        self.transcript.feed(self._pending[:start])
        self._pending = self._pending[start:]
        return None
