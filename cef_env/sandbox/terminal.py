"""A sandboxed terminal for agents: bash in an isolated place of its own, one command after the other.

    with Terminal(resolve(), {"statement.md": b"..."}) as terminal:
        terminal.run("ls -l").output

Commands see the system's tools, read-only, and a writable folder; no network and none of the caller's files.
One object is for one thread at a time; many terminals run at once. Judges nothing.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from types import TracebackType

from cef_env.errors import SandboxUnavailableError, UserError
from cef_env.sandbox.inside.terminal import FOLDERS
from cef_env.sandbox.shell import CommandResult, Line, Shell, TerminalLimits
from cef_env.sandbox.tiers import Plan, Tier
from cef_env.sandbox.types import BoxError

__all__ = ["WORK", "CommandResult", "Terminal", "TerminalLimits"]

WORK = FOLDERS["work"]


class Terminal:
    """A started terminal whose working folder holds `files`.

    Raises `BoxError` when it does not come up, or is gone later: an instrument fault, nothing is known about
    the command. Then close it. Raises `SandboxUnavailableError` for a plan without namespaces.
    """

    def __init__(
        self,
        plan: Plan,
        files: Mapping[str, bytes] = {},
        limits: TerminalLimits = TerminalLimits(),  # noqa: B008 - frozen
    ) -> None:
        for name in files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\0" in name or str(path) in (".", ""):
                raise UserError(f"not a file name inside the working folder: {name!r}")
        self._line = _open_line(plan, files, limits)
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
        if "\0" in path:
            return None
        try:
            return self._line.read_file(str(PurePosixPath(self._shell.folder) / path), most)
        except (OSError, ValueError):
            if not self.alive:
                raise BoxError("the terminal is gone") from None
            return None

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


def _open_line(plan: Plan, files: Mapping[str, bytes], limits: TerminalLimits) -> Line:
    """The way to a bash that `plan` offers; pexpect and the SDK of Docker are imported only here."""
    try:
        if plan.tier is Tier.DOCKER:
            from cef_env.sandbox.docker_terminal import DockerLine

            return DockerLine(plan, files, limits)
        from cef_env.sandbox.pty_line import PtyLine
    except ImportError as error:
        raise UserError("terminals need pexpect: pip install 'cef-env[terminal]'") from error
    if plan.tier not in (Tier.CGROUPS, Tier.RLIMITS):
        raise SandboxUnavailableError(
            f"no terminal in the tier {plan.tier}: it has no folder of its own to write to; "
            "use cgroups, rlimits or docker"
        )
    return PtyLine(plan, files, limits)
