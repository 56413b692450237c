"""System calls that the standard library does not offer, by number where libc has no wrapper.

Nothing here decides when to use them: see `confine.py` and `runner.py`.
"""

import ctypes
import os
import resource
import signal
import struct
import sys

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
CLONE_NUMBER = {"x86_64": 56, "aarch64": 220}
CAPSET_NUMBER = {"x86_64": 126, "aarch64": 91}
CAPABILITY_VERSION_3 = 0x20080522
MS_NOSUID_NODEV, MNT_DETACH = 2 | 4, 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_SECCOMP = 1, 4, 8, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
PR_CAP_AMBIENT_RAISE, PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER = 2, 4, 2
STACK_BYTES = 256 << 20
THREAD_STACK_BYTES = 8 << 20

libc = ctypes.CDLL(None, use_errno=True)
_raw = ctypes.PyDLL(None)  # keeps the interpreter lock, as a fork must


def check(result: int, what: str) -> None:
    """`OSError` from errno unless `result` is 0."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def fork_into(flags: int) -> int:
    """fork() into new namespaces. unshare() cannot serve: a second unshare(NEWPID) fails with ENOMEM."""
    # Out of int range for ctypes' default conversion, hence the explicit widths.
    number = CLONE_NUMBER[os.uname().machine]
    zero = ctypes.c_void_p(0)
    ctypes.pythonapi.PyOS_BeforeFork()
    arguments = (ctypes.c_long(number), ctypes.c_ulong(flags | signal.SIGCHLD), zero, zero, zero, zero)
    pid = int(_raw.syscall(*arguments))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("clone of the runner failed")
    return pid


def mount_tmpfs(folder: str, options: str) -> None:
    flags = ctypes.c_ulong(MS_NOSUID_NODEV)
    check(libc.mount(b"box", folder.encode(), b"tmpfs", flags, options.encode()), f"mount {folder}")


def unmount(folder: str) -> None:
    """Detach at once; what still has it open keeps it until it ends."""
    check(libc.umount2(folder.encode(), MNT_DETACH), f"umount {folder}")


def undumpable() -> None:
    """No core dump, no ptrace and no /proc entry of this process for others of its user."""
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def death_signal(number: int) -> None:
    """Sent to us when our parent ends. A change of user clears it."""
    check(libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0), "death signal")


def subreaper() -> None:
    """Orphans among our descendants become our children."""
    check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def become(uid: int, keep: int | None = None) -> None:
    """Change to a user and group of this number, for good; `keep` is a capability that may be kept."""
    if keep is not None:
        check(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "keepcaps")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_capabilities(keep: int | None = None) -> None:
    """Drop all but `keep`, and keep that across exec too."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    mask = 0 if keep is None else 1 << keep
    header, sets = struct.pack("Ii", CAPABILITY_VERSION_3, 0), struct.pack("6I", mask, mask, mask, 0, 0, 0)
    check(libc.syscall(ctypes.c_long(CAPSET_NUMBER[os.uname().machine]), header, sets), "capset")
    if keep is not None:
        check(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, keep, 0, 0), "ambient capability")


def no_new_privileges() -> None:
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


class SeccompFilter:
    """A filter program, laid out once for prctl; the object keeps its memory alive."""

    def __init__(self, program: bytes) -> None:
        self._program = ctypes.create_string_buffer(program, len(program))
        head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(self._program))
        self._head = ctypes.create_string_buffer(head, len(head))

    def install(self) -> None:
        mode, where = ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.c_void_p(ctypes.addressof(self._head))
        check(libc.prctl(PR_SET_SECCOMP, mode, where, 0, 0), "seccomp")


def large_main_stack() -> None:
    """Deep recursion needs RLIMIT_STACK at exec time, when the kernel lays out the address space."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    if soft != wanted:
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
        os.execv(sys.executable, sys.orig_argv)
    # glibc takes the same limit as the default size of thread stacks: put the usual one back.
    attributes = ctypes.create_string_buffer(128)
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(THREAD_STACK_BYTES))
    libc.pthread_setattr_default_np(attributes)


def limit(kind: int, soft: int, hard: int | None = None) -> None:
    """setrlimit, but never above a lower limit that was set on us: raising one takes a privilege."""
    _, ours = resource.getrlimit(kind)
    wanted = soft if hard is None else hard
    most = wanted if ours == resource.RLIM_INFINITY else min(wanted, ours)
    resource.setrlimit(kind, (min(soft, most), most))
