"""A sandboxed terminal for agents: bash in an isolated place of its own, one command after the other.

    with Terminal(resolve(), {"statement.md": b"..."}) as terminal:
        terminal.run("ls -l").output

Commands see the system's tools, read-only, and a writable folder; no network and none of the caller's files.
One object is for one thread at a time; many terminals run at once. Judges nothing.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import TracebackType

from cef_env.errors import UserError
from cef_env.sandbox.shell import CommandResult, Shell, TerminalLimits
from cef_env.sandbox.terminal_bwrap import WORK
from cef_env.sandbox.tiers import Plan
from cef_env.sandbox.types import BoxError

__all__ = ["WORK", "CommandResult", "Terminal", "TerminalLimits"]

_MOST_LINKS = 40


class Terminal:
    """A started terminal whose working folder holds `files`.

    Raises `BoxError` when it does not come up, or is gone later: an instrument fault, nothing is known about
    the command. Then close it.
    """

    def __init__(
        self,
        plan: Plan,
        files: Mapping[str, bytes] = {},
        limits: TerminalLimits = TerminalLimits(),  # noqa: B008 - frozen
    ) -> None:
        try:
            from cef_env.sandbox.pty_line import PtyLine
        except ImportError as error:
            raise UserError("terminals need pexpect: pip install cef-env[terminal]") from error
        for name in files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\0" in name or str(path) in (".", ""):
                raise UserError(f"not a file name inside the working folder: {name!r}")
        self._line = PtyLine(plan, files, limits)
        try:
            self._shell = Shell(self._line, limits, WORK)
        except BaseException:
            self.close()
            raise

    def run(self, command: str) -> CommandResult:
        """Run one command, as typed at the prompt. Its stdin is empty."""
        return self._shell.run(command)

    def read(self, path: str, most: int = 1 << 20) -> bytes | None:
        """The first `most` bytes of a file in the working folder; None where there is no regular file.

        A relative path starts where the shell is. Links are followed as inside the terminal, and what they
        reach must lie in the working folder.
        """
        try:
            fd = _open_below(self._line.root, str(PurePosixPath(self._shell.folder) / path))
        except (OSError, ValueError):
            if not self.alive:
                raise BoxError("the terminal is gone") from None
            return None
        if fd is None:
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read(most)

    @property
    def alive(self) -> bool:
        """Whether the sandbox still runs; one that died while idle is no use."""
        return self._line.alive

    def close(self) -> None:
        """End the terminal and everything in it. Idempotent."""
        self._line.close()

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open_below(root: str, path: str) -> int | None:
    """A descriptor of the regular file at `path` in the working folder, seen from the folder `root` as `/`.

    Walks by hand: the kernel would follow a link to where it leads on the host. None for no regular file.
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as stack:

        def opened(name: str, folder: int | None) -> int:
            fd = os.open(name, os.O_PATH | flags, dir_fd=folder)
            stack.callback(os.close, fd)
            return fd

        top = os.open(root, os.O_PATH | os.O_CLOEXEC)
        stack.callback(os.close, top)
        folders, names = [top], list[str]()
        parts, links = list(reversed(PurePosixPath(path).parts)), 0
        while parts:
            part = parts.pop()
            if part == "/":
                folders, names = [top], []
            elif part == "..":
                folders, names = folders[: max(1, len(folders) - 1)], names[:-1]
            else:
                fd = opened(part, folders[-1])
                if stat.S_ISLNK(os.fstat(fd).st_mode):
                    links += 1
                    if links > _MOST_LINKS:
                        raise OSError(errno.ELOOP, "too many links")
                    parts += reversed(PurePosixPath(os.readlink("", dir_fd=fd)).parts)
                else:
                    folders.append(fd)
                    names.append(part)
        if names[:1] != [WORK.strip("/")] or not stat.S_ISREG(os.fstat(folders[-1]).st_mode):
            return None
        # The descriptor, not the name, is opened for reading: nobody can have swapped it.
        return os.open(f"/proc/self/fd/{folders[-1]}", os.O_RDONLY | os.O_CLOEXEC)
