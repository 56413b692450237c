"""The system calls a judged program may not make, as a classic BPF filter.

A deny-list: namespaces and capabilities already confine the program, the filter removes kernel attack
surface, network sockets, shared state that would survive a test (SysV IPC, message queues, keyrings) and
the calls that reach another process of the same user. `Mode.LANDLOCK` and `Mode.ALONE` deny more, for tiers
where less else confines. Does not install anything: the zygote does.
"""

import errno
import struct
from collections.abc import Iterable
from enum import IntEnum

from cef_env.errors import SandboxUnavailableError

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64); None where the architecture lacks it.
DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "accept4": (288, 242),
    "bind": (49, 200),
    "listen": (50, 201),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
    # Memory that no file-size or data limit counts; also what an OOM kill could not take back.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "personality": (135, 92),
    "syslog": (103, 116),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "vhangup": (153, 58),
    # The device files of a box are the machine's: a time set on one would outlive the test.
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
# Where Landlock confines files and tests may be of the caller's own user: changes that it does not govern.
DENIED_WITH_LANDLOCK: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "truncate": (76, 45),  # before version 3 of Landlock
    # Would tell the names of files that appear in folders which cannot be opened.
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
}
# Where nothing scopes signals: no second process, and so none but itself to signal.
DENIED_ALONE: dict[str, tuple[int | None, int | None]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "pidfd_send_signal": (424, 424),
}
SIGNALS: dict[str, tuple[int, int]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
"""Their first argument is the process (of tkill: the main thread's number is the same)."""

CLONE = (56, 220)
CLONE3, OPENAT2 = 435, 437
PRLIMIT64, PRCTL, FCNTL, IOCTL = (302, 261), (157, 167), (72, 25), (16, 29)
OPEN: tuple[int | None, int | None] = (2, None)
OPENAT = (257, 56)
CLONE_NEW_ANYTHING, CLONE_THREAD = 0x7E020000, 0x00010000
PR_SET_PDEATHSIG, F_SETLEASE, F_NOTIFY = 1, 1024, 1026
F_SETOWN, F_SETSIG, F_SETOWN_EX = 8, 10, 15
RT_SIGACTION, SIGCHLD = (13, 134), 17
O_ACCMODE, O_TRUNC = 3, 0o1000
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)
"""Of terminals: is it one, its size; of any descriptor: bytes to read, blocking, closing on exec."""
X32_BIT = 0x40000000
OWN_PID = 0x0FEDC1D0
"""Above any pid: in place of the test's own, which its process puts in."""

_LOAD, _AND, _JEQ, _JSET, _JGE, _RET = 0x20, 0x54, 0x15, 0x45, 0x35, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


class Mode(IntEnum):
    """How much is denied; each denies what the one before does."""

    NAMESPACES = 0
    """Namespaces confine files and processes."""
    LANDLOCK = 1
    """Landlock confines files and signals."""
    ALONE = 2
    """Landlock confines files; processes must be confined here."""


def _op(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, k)


def _fail(code: int) -> bytes:
    return _op(_RET, _ERRNO | code)


def _when(number: int | None, argument: int, *body: bytes) -> list[bytes]:
    """If the call is `number`: its argument (low half) is loaded and `body`, which must return, decides."""
    if number is None:
        return []
    return [_op(_JEQ, number, 0, 1 + len(body)), _op(_LOAD, _ARGUMENTS + 8 * argument), *body]


def _among(values: Iterable[int], others: int) -> list[bytes]:
    """Allow these values; any other fails with errno `others`."""
    steps = [step for value in values for step in (_op(_JEQ, value, 0, 1), _op(_RET, _ALLOW))]
    return [*steps, _fail(others)]


def deny_filter(machine: str, mode: Mode = Mode.NAMESPACES, *, sum_children: bool = False) -> bytes:
    """The filter for `machine` (as in `os.uname().machine`), 8 bytes per instruction.

    Denied calls fail with EPERM; clone3 and openat2, whose arguments no filter can read, fail with ENOSYS so
    that libc falls back to clone and openat. In `Mode.ALONE` the word `OWN_PID` must be replaced.
    With `sum_children` nobody may change what happens at SIGCHLD: the kernel forgets the CPU time and memory
    of children whose parent ignores it, and without control groups what it remembers is all there is.
    Raises `SandboxUnavailableError` for an architecture without a table.
    """
    if machine not in AUDIT_ARCH:
        raise SandboxUnavailableError(f"no table of system calls for {machine}: use x86_64 or aarch64")
    column = 0 if machine == "x86_64" else 1
    eperm, allow = _fail(errno.EPERM), _op(_RET, _ALLOW)
    program = [_op(_LOAD, _ARCH), _op(_JEQ, AUDIT_ARCH[machine], 1), _op(_RET, _KILL), _op(_LOAD, _NUMBER)]
    if machine == "x86_64":
        program += [_op(_JGE, X32_BIT, 0, 1), eperm]
    program += [_op(_JEQ, CLONE3, 0, 1), _fail(errno.ENOSYS)]
    threads_only = [_op(_JSET, CLONE_THREAD, 1), eperm] if mode is Mode.ALONE else []
    new_namespace = _op(_JSET, CLONE_NEW_ANYTHING, 0, 1)
    program += _when(CLONE[column], 0, new_namespace, eperm, *threads_only, allow)
    program += _when(PRLIMIT64[column], 0, *_among([0], errno.EPERM))  # own limits only
    # What has an owner sends signals to it: kill() by another name.
    commands = [F_SETOWN, F_SETSIG, F_SETOWN_EX]
    if mode >= Mode.LANDLOCK:
        # A lease makes whoever opens the file wait; F_NOTIFY tells as inotify does.
        commands += [F_SETLEASE, F_NOTIFY]
    never = [step for command in commands for step in (_op(_JEQ, command, 0, 1), eperm)]
    program += _when(FCNTL[column], 1, *never, allow)
    if sum_children:
        # Asking, with a null pointer for the new action, is allowed.
        low, high = _op(_LOAD, _ARGUMENTS + 8), _op(_LOAD, _ARGUMENTS + 12)
        asks = [low, _op(_JEQ, 0, 0, 3), high, _op(_JEQ, 0, 0, 1), allow]
        program += _when(RT_SIGACTION[column], 0, _op(_JEQ, SIGCHLD, 1), allow, *asks, eperm)
    tables = [DENIED]
    if mode >= Mode.LANDLOCK:
        tables.append(DENIED_WITH_LANDLOCK)
        program += [_op(_JEQ, OPENAT2, 0, 1), _fail(errno.ENOSYS)]
        # Access mode 3 opens a file for neither reading nor writing, which Landlock lets pass; before version
        # 3 so it does truncation of what may be read.
        flags = [_op(_AND, O_ACCMODE | O_TRUNC)]
        for value in (O_ACCMODE, O_ACCMODE | O_TRUNC, O_TRUNC):
            flags += [_op(_JEQ, value, 0, 1), eperm]
        program += _when(OPEN[column], 1, *flags, allow) + _when(OPENAT[column], 2, *flags, allow)
        program += _when(IOCTL[column], 1, *_among(IOCTLS, errno.ENOTTY))
    if mode is Mode.ALONE:
        tables.append(DENIED_ALONE)
        for numbers in SIGNALS.values():
            program += _when(numbers[column], 0, *_among([OWN_PID], errno.EPERM))
        # The signal that ends a test whose runner was killed.
        program += _when(PRCTL[column], 0, _op(_JEQ, PR_SET_PDEATHSIG, 0, 1), eperm, allow)
    for number in sorted({row[column] for table in tables for row in table.values()} - {None}):  # type: ignore[type-var]
        program += [_op(_JEQ, number, 0, 1), eperm]  # type: ignore[arg-type]
    program.append(allow)
    return b"".join(program)
