"""Control groups for the tests of a box: memory, processes and CPU of a program and all its children.

Supports version 1 (one hierarchy per controller) and version 2 (one for all). Only the tests enter the
group; the zygote stays outside, so an out-of-memory kill can never take it. Does not run anything.
"""

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path

from cef_env.errors import JudgeError
from cef_env.sandbox import owner

PREFIX = "cef-judge"
_numbers = itertools.count()


@dataclass(frozen=True)
class CgroupParent:
    """Folders under which this process may make groups."""

    version: int
    folders: tuple[Path, ...]
    """v1: of the controllers memory, pids and cpuacct, in this order; v2: one folder."""


def _own_paths(text: str) -> dict[str, str]:
    """Controller -> path, from the text of /proc/self/cgroup; version 2 is the empty controller."""
    paths = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _mounts(text: str) -> dict[str, Path]:
    """Controller -> mount point, from the text of /proc/self/mountinfo; version 2 is the empty name."""
    mounts = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        point, (kind, _, options) = Path(before.split()[4]), after.split(maxsplit=2)
        if kind == "cgroup2":
            mounts[""] = point
        elif kind == "cgroup":
            for controller in options.split(","):
                mounts[controller] = point
    return mounts


def find_parent() -> CgroupParent | None:
    """Where this process can make groups with memory, pids and CPU accounting; None if nowhere."""
    mounts = _mounts(Path("/proc/self/mountinfo").read_text())
    own = _own_paths(Path("/proc/self/cgroup").read_text())

    def candidates(controller: str) -> list[Path]:
        root = mounts.get(controller)
        if root is None:
            return []
        inside = root / own.get(controller, "/").lstrip("/")
        # Below our own group first, so that limits set on us from outside hold for the tests too.
        return [path for path in (inside, *inside.parents) if path.is_relative_to(root) and path.is_dir()]

    folders = [next(filter(_can_make, candidates(name)), None) for name in ("memory", "pids", "cpuacct")]
    if all(folder is not None for folder in folders):
        return CgroupParent(1, tuple(folder for folder in folders if folder is not None))
    for path in candidates(""):
        with contextlib.suppress(OSError):
            enabled = (path / "cgroup.subtree_control").read_text().split()
            if {"memory", "pids"} <= set(enabled) and _can_make(path):
                return CgroupParent(2, (path,))
    return None


def _can_make(folder: Path) -> bool:
    if not os.access(folder, os.W_OK):
        return False
    probe = folder / _name()
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        return os.access(probe / "cgroup.procs", os.W_OK)
    finally:
        probe.rmdir()


def _name() -> str:
    return f"{PREFIX}.{owner.mark()}.{next(_numbers)}"


def sweep(parent: CgroupParent) -> int:
    """Remove the groups of judges that were killed; returns how many. Groups of live judges stay."""
    removed = 0
    for folder in parent.folders:
        pattern = f"{PREFIX}.*"
        # The killed judge may have been in a sibling of our group: a service or a login starts new ones.
        for group in [*folder.glob(pattern), *folder.parent.glob(f"*/{pattern}")]:
            if owner.is_gone(group.name.removeprefix(f"{PREFIX}.").rpartition(".")[0]):
                with contextlib.suppress(OSError):  # another judge sweeps too, or its tests are dying
                    group.rmdir()
                    removed += 1
    return removed


class BoxCgroup:
    """The group of one box, emptied between tests."""

    def __init__(self, parent: CgroupParent, processes: int) -> None:
        name = _name()
        self.version = parent.version
        self.folders = [folder / name for folder in parent.folders]
        self._memory = self.folders[0]
        self._limit = 0
        self._kills = 0
        for folder in self.folders:
            folder.mkdir()
        pids = self.folders[1] if self.version == 1 else self._memory
        (pids / "pids.max").write_text(str(processes))

    def open_fds(self) -> list[int]:
        """Descriptors for the zygote: one per hierarchy to join by, then the CPU counter."""
        joins = [os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for folder in self.folders]
        counter = "cpuacct.usage" if self.version == 1 else "cpu.stat"
        return [*joins, os.open(self.folders[-1] / counter, os.O_RDONLY | os.O_CLOEXEC)]

    def limit_memory(self, limit: int) -> None:
        """Set the limit in bytes, swap included."""
        if limit == self._limit:
            return
        if self.version == 2:
            names = [("memory.max", limit), ("memory.swap.max", 0)]
        else:
            names = [("memory.limit_in_bytes", limit), ("memory.memsw.limit_in_bytes", limit)]
            if limit > self._limit > 0:
                names.reverse()  # the kernel demands limit <= memsw at every moment
        for name, value in names:
            path = self._memory / name
            if path.exists():  # the swap file is absent on kernels without swap accounting
                path.write_text(str(value))
        self._limit = limit

    def start_test(self) -> None:
        """Reset the peak and remember the count of out-of-memory kills."""
        self._kills = self._oom_kills()
        if self.version == 1:
            (self._memory / "memory.max_usage_in_bytes").write_text("0")

    def end_test(self) -> tuple[int, bool]:
        """Peak memory in bytes, and whether the kernel killed for memory.

        Raises `JudgeError` when it killed although the test was far from its limit: then the machine, not
        the program, ran out of memory.
        """
        peak = self._peak()
        killed = self._oom_kills() > self._kills
        if killed and peak < 0.9 * self._limit:
            raise JudgeError("the machine ran out of memory during a test; use fewer workers or more memory")
        return peak, killed

    def _peak(self) -> int:
        if self.version == 1:
            return int((self._memory / "memory.max_usage_in_bytes").read_text())
        path = self._memory / "memory.peak"  # Linux 5.19 and later; never reset, so an upper bound
        return int(path.read_text()) if path.exists() else 0

    def _oom_kills(self) -> int:
        text = (self._memory / ("memory.oom_control" if self.version == 1 else "memory.events")).read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))

    def close(self) -> None:
        """Remove the group once its last process is gone. Raises `JudgeError` if that takes over 5 s."""
        deadline = time.monotonic() + 5
        for folder in self.folders:
            while True:
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise JudgeError(f"cgroup {folder} is still busy: {error.strerror}") from error
                    time.sleep(0.002)
