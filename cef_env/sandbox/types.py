"""What goes into a box and what comes out: contents, limits, executions. Pure data."""

import signal
from dataclasses import dataclass, field
from enum import StrEnum

from cef_env.errors import JudgeError

MAX_PROCESSES = 96
"""How many processes and threads one test may have at once."""


OUTPUT_BYTES = 16 << 20


class BoxError(JudgeError):
    """The box died or broke the protocol: nothing is known about the program."""


class Stop(StrEnum):
    """Why the watcher ended a test."""

    NONE = "none"
    """It did not: the program ended by itself."""
    CPU = "cpu"
    """CPU time over the limit."""
    WALL = "wall"
    """Idle: wall time over the guard."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a box holds beside the interpreter and the system's shared libraries."""

    packages: tuple[str, ...] = ()
    """Third-party packages that programs may import, loaded before the first program: `numpy`."""
    toolchain: bool = False
    """The compilers of the host; for boxes that compile, never for boxes that run programs."""
    files_bytes: int = 64 << 20
    """How much all files of one test may hold."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one test."""

    cpu_s: float
    memory_bytes: int
    output_bytes: int = OUTPUT_BYTES
    """For stdout, as much again for stderr, and for any single file."""

    @property
    def wall_s(self) -> float:
        """The guard against idle programs: never near the CPU limit, so load cannot trip it."""
        return max(5 * self.cpu_s, self.cpu_s + 5)


@dataclass(frozen=True, slots=True)
class Execution:
    """What one program did on one input."""

    status: int
    """As `os.waitstatus_to_exitcode`: the exit status, or minus the signal."""
    stop: Stop
    cpu_s: float
    wall_s: float
    peak_bytes: int
    out_of_memory: bool
    """It needed more memory than the limit (kernel's count, or peak resident size)."""
    stdout: bytes
    """At most the output limit plus one byte."""
    stderr: bytes
    """The last 64 KiB."""
    output_exceeded: bool
    files: dict[str, bytes] = field(default_factory=dict)
    """The files asked for, empty where the program left none; each at most the output limit plus one byte."""

    @property
    def killed_from_outside(self) -> bool:
        """A SIGKILL that no limit explains: by the program itself, or by somebody on the host."""
        ours = self.stop is not Stop.NONE or self.out_of_memory
        return self.status == -signal.SIGKILL and not ours
