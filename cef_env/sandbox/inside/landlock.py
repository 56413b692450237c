"""Landlock: which files a process may open, and, on newer kernels, which processes it may signal.

Builds rule sets for whatever version ("ABI") the kernel speaks and enters them. Does not choose paths: the
host does (see `launch.py`). Landlock governs opening, making, removing and renaming; it does not govern stat,
chmod, chown, utime or attributes: `seccomp.py` of the host denies what changes things.
"""

import ctypes
import os
import stat
import struct

from .kernel import check, libc

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # on every architecture
VERSION_QUERY, PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 9, 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = READ_FILE | READ_DIR
WRITE = WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
SCOPE_SOCKETS, SCOPE_SIGNALS = 1, 2

TRUNCATE_ABI, NET_ABI, IOCTL_ABI, SIGNAL_ABI = 3, 4, 5, 6
"""First version that knows truncation, TCP, ioctl on devices, and the scope of signals (Linux 6.12)."""


def kernel_abi() -> int:
    """The version of this kernel; 0 where Landlock is missing, disabled or refused."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(VERSION_QUERY))))


def known(abi: int) -> tuple[int, int, int]:
    """All (file accesses, TCP accesses, scopes) that version `abi` can restrict."""
    files = IOCTL_DEV * 2 - 1
    for bit, first in ((REFER, 2), (TRUNCATE, TRUNCATE_ABI), (IOCTL_DEV, IOCTL_ABI)):
        if abi < first:
            files &= ~bit
    return files, 3 if abi >= NET_ABI else 0, SCOPE_SOCKETS | SCOPE_SIGNALS if abi >= SIGNAL_ABI else 0


class Ruleset:
    """What is denied but for the rules added. Any number of processes may enter it, one layer each time."""

    def __init__(self, abi: int, files: int, tcp: int = 0, scopes: int = 0) -> None:
        most = known(abi)
        self._files = files & most[0]
        attributes = struct.pack("QQQ", self._files, tcp & most[1], scopes & most[2])
        size = 8 if abi < NET_ABI else 16 if abi < SIGNAL_ABI else 24
        self._fd = libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint(0))
        check(min(0, self._fd), "landlock_create_ruleset")

    def allow(self, path: str, accesses: int) -> None:
        """Allow accesses to a file, or to a folder and all below it."""
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            of_kind = -1 if stat.S_ISDIR(os.fstat(fd).st_mode) else OF_FILES
            rule = struct.pack("=Qi", accesses & self._files & of_kind, fd)
            check(libc.syscall(ADD_RULE, self._fd, PATH_BENEATH, rule, ctypes.c_uint(0)), f"landlock: {path}")
        finally:
            os.close(fd)

    def enter(self) -> None:
        """Restrict this process, and whatever it starts, for good."""
        check(libc.syscall(RESTRICT_SELF, self._fd, ctypes.c_uint(0)), "landlock_restrict_self")
