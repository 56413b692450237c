"""The folders that a test may write to: empty at its start, filled with its input files, read at its end.

Knows nothing of processes; the runner calls it when none of the test is left.
"""

import os
import stat
from collections.abc import Iterable

from . import kernel, protocol

BOX, SHM = "/box", "/box/shm"
COPY_BYTES = 1 << 20


class TmpfsWorkspace:
    """A tmpfs of its own for every test: /box/work (also /tmp) and /box/shm (also /dev/shm)."""

    stdin = f"{BOX}/stdin"
    """Where /dev/stdin points to: without /proc it cannot be a link to descriptor 0."""

    def __init__(self, config: dict) -> None:
        self.options = f"size={config['tmpfs_bytes']},nr_inodes={config['tmpfs_inodes']},mode=755"
        self._clean: tuple | None = None

    def fresh(self) -> None:
        """A new tmpfs, unless the one there is untouched."""
        if self._clean is not None:
            if self._state() == self._clean:
                return
            kernel.unmount(BOX)
        kernel.mount_tmpfs(BOX, self.options)
        for name in (protocol.WORK, SHM):
            os.mkdir(name)
            os.chmod(name, 0o1777)
        self._clean = self._state()

    @staticmethod
    def _state() -> tuple:
        """What any lasting change must alter: used blocks and inodes, and ctime, which nobody can set."""
        usage = os.statvfs(BOX)
        marks = [(s.st_ctime_ns, s.st_mode) for s in map(os.stat, (BOX, protocol.WORK, SHM))]
        return (usage.f_bfree, usage.f_ffree, marks)


def place(names: Iterable[str], fds: Iterable[int], writable: Iterable[str]) -> None:
    """Copies descriptors to files in the working directory, and makes the folders of `writable` names."""
    for name, fd in zip(names, fds):
        path = os.path.join(protocol.WORK, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        offset, size = 0, os.fstat(fd).st_size
        while offset < size:
            offset += os.sendfile(target, fd, offset, size - offset)
        os.close(target)
    for name in writable:
        folder = os.path.dirname(os.path.join(protocol.WORK, name))
        if folder != protocol.WORK:
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, 0o1777)


def collect(names: Iterable[str], fds: Iterable[int], most: int) -> None:
    """Copies files of the working directory to descriptors, at most `most` + 1 bytes of each.

    A name that is missing, no regular file, or reached through a link stays empty.
    """
    for name, fd in zip(names, fds):
        path = os.path.join(protocol.WORK, name)
        if os.path.realpath(path) != path:
            continue
        try:
            source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if stat.S_ISREG(os.fstat(source).st_mode):
                copied = 0
                while copied <= most:
                    count = os.sendfile(fd, source, copied, min(COPY_BYTES, most + 1 - copied))
                    if count == 0:
                        break
                    copied += count
        finally:
            os.close(source)
