"""What /proc says of processes: their pid namespace, parent and descendants. Signals none."""

import errno
import os
from pathlib import Path


def namespace(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/pid")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descendants(pid: int) -> list[int]:
    """Process ids below `pid`, as this process sees them; those that end meanwhile may be missing."""
    found, queue = [], [pid]
    while queue:
        try:
            tasks = list(Path(f"/proc/{queue.pop()}/task").glob("*/children"))
            children = [int(number) for task in tasks for number in task.read_text().split()]
        except OSError as error:  # it ended while we looked
            if error.errno in (errno.ENOENT, errno.ESRCH):
                continue
            raise
        found += children
        queue += children
    return found
