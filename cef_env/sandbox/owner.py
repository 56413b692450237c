"""Who made a thing that outlives its process, so that a later judge may remove what a killed one left.

A mark names a process for good: pid namespace, pid, start time. Control groups, folders and containers of
boxes carry it. Does not remove anything.
"""

import os
from pathlib import Path


def pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def started(pid: int) -> str | None:
    """Start time of a process in clock ticks: tells a reused pid from the old one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def mark() -> str:
    """The mark of this process."""
    pid = os.getpid()
    return f"{pid_namespace()}.{pid}.{started(pid)}"


def is_gone(mark: str) -> bool:
    """Whether the process of a mark has ended; False for marks of other pid namespaces, and for no marks."""
    namespace, _, rest = mark.partition(".")
    pid, _, start = rest.partition(".")
    return namespace == str(pid_namespace()) and pid.isdecimal() and started(int(pid)) != start
