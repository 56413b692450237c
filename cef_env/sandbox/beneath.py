"""Opening a file of another root folder, following links as they are meant there and never out of it."""

import contextlib
import errno
import os
import stat
from pathlib import PurePosixPath

_MOST_LINKS = 40


def open_beneath(root: str, path: str, within: str) -> int | None:
    """A descriptor of the regular file at `path`, where the folder `root` is `/`; None if not in `within`.

    `within` is a folder at the top. Walks by hand: the kernel would follow a link to where it leads on the
    host. None, too, for what is no regular file.
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
        if names[:1] != [within.strip("/")] or not stat.S_ISREG(os.fstat(folders[-1]).st_mode):
            return None
        # The descriptor, not the name, is opened for reading: nobody can have swapped it.
        return os.open(f"/proc/self/fd/{folders[-1]}", os.O_RDONLY | os.O_CLOEXEC)
