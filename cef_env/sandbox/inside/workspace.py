"""The folders that a test may write to: empty at its start, filled with its input files, read at its end.

Knows nothing of processes; the runner calls it when none of the test is left.
"""

import contextlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from . import kernel, protocol

BOX, SHM = "/box", "/box/shm"
COPY_BYTES = 1 << 20


class Workspace(ABC):
    """The working directory of the tests, and whatever else they may write to."""

    stdin = ""
    """The file to copy stdin to where /dev/stdin cannot be a link to descriptor 0."""

    def __init__(self, config: dict) -> None:
        self.work: str = config["work"]

    @abstractmethod
    def fresh(self) -> None:
        """Empty it, from what a test left."""

    def place(self, names: Iterable[str], fds: Iterable[int], writable: Iterable[str]) -> None:
        """Copies descriptors to files in the working directory, and makes the folders of `writable` names."""
        for name, fd in zip(names, fds):
            path = os.path.join(self.work, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            offset, size = 0, os.fstat(fd).st_size
            while offset < size:
                offset += os.sendfile(target, fd, offset, size - offset)
            os.close(target)
        for name in writable:
            folder = os.path.dirname(os.path.join(self.work, name))
            if folder != self.work:
                os.makedirs(folder, exist_ok=True)
                os.chmod(folder, 0o1777)

    def collect(self, names: Iterable[str], fds: Iterable[int], most: int) -> None:
        """Copies files of the working directory to descriptors, at most `most` + 1 bytes of each.

        A name that is missing, no regular file, or reached through a link stays empty.
        """
        for name, fd in zip(names, fds):
            path = os.path.join(self.work, name)
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


class TmpfsWorkspace(Workspace):
    """A tmpfs of its own for every test: /box/work (also /tmp) and /box/shm (also /dev/shm)."""

    stdin = f"{BOX}/stdin"  # there is no /proc

    def __init__(self, config: dict) -> None:
        super().__init__(config)
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


class FolderWorkspace(Workspace):
    """A folder of the host, for tiers that cannot mount. No quota but the limit of each file's size."""

    def __init__(self, config: dict) -> None:
        super().__init__(config)
        if config["uid"] is not None:
            os.chown(self.work, -1, config["uid"])
            os.chmod(self.work, 0o1770)

    def fresh(self) -> None:
        empty(self.work)


class ContainerWorkspace(Workspace):
    """The three folders of a container that programs may write to, each a tmpfs for the life of the box.

    Root has no power over files there, so what a test left is read and removed in the name of its user.
    """

    def __init__(self, config: dict) -> None:
        super().__init__(config)
        self._uid: int = config["uid"]
        self._folders = (self.work, "/dev/shm", "/tmp")
        self._clean: list | None = None

    def fresh(self) -> None:
        if self._clean is None:
            os.makedirs(self.work, exist_ok=True)
            for folder in self._folders:
                os.chmod(folder, 0o1777)
        if self._clean is None or self._state() != self._clean:
            self._as_user(self._empty)
            self._empty()  # what we placed
            if any(map(os.listdir, self._folders)):
                raise OSError("the folders of a test cannot be emptied")
            self._clean = self._state()

    def collect(self, names: Iterable[str], fds: Iterable[int], most: int) -> None:
        if names:
            self._as_user(lambda: super(ContainerWorkspace, self).collect(names, fds, most))

    def _empty(self) -> None:
        for folder in self._folders:
            empty(folder)

    def _state(self) -> list:
        return [(os.statvfs(f).f_bfree, os.statvfs(f).f_ffree, os.stat(f).st_ctime_ns) for f in self._folders]

    def _as_user(self, work: Callable[[], object]) -> None:
        """Does `work` in a child that is the tests' user; no process of a test is left."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                kernel.become(self._uid)
                work()
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(pid, 0)[1] != 0:
            raise OSError("the files of a test cannot be read or removed")


def empty(folder: str) -> None:
    """Removes all that is in `folder` and may be removed by us, however deep and however closed to its owner.

    Nobody may change it meanwhile. What lies deep is moved up first: names of any depth have no path.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        folders = _clear(top, top, "")
        while folders:
            name = folders.pop()
            try:
                fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
            except PermissionError:  # another user's
                continue
            try:
                folders += _clear(fd, top, f".{os.urandom(8).hex()}.")
            finally:
                os.close(fd)
            with contextlib.suppress(OSError):  # it holds something of another user
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _clear(fd: int, top: int, prefix: str) -> list[str]:
    """Unlinks the files of a folder, moves its folders to `top`, and returns their names there."""
    moved = []
    for number, entry in enumerate(list(os.scandir(fd))):
        with contextlib.suppress(PermissionError):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=fd)
                continue
            with contextlib.suppress(PermissionError):  # another user's, with something of ours in it perhaps
                os.chmod(entry.name, 0o700, dir_fd=fd)
            name = f"{prefix}{number}" if prefix else entry.name
            if prefix:
                os.rename(entry.name, name, src_dir_fd=fd, dst_dir_fd=top)
            moved.append(name)
    return moved
