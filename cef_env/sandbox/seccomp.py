"""The system calls a judged program may not make, as a classic BPF filter.

A deny-list: namespaces and capabilities already confine the program, the filter removes kernel attack
surface, network sockets, shared state that would survive a test (SysV IPC, message queues, keyrings) and
the calls that reach another process of the same user. Does not install anything: the zygote does.
"""

import errno
import struct

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
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
CLONE = (56, 220)
CLONE3 = 435
PRLIMIT64 = (302, 261)
CLONE_NEW_ANYTHING = 0x7E020000
X32_BIT = 0x40000000

_LOAD, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER, _ARCH, _ARG0_LOW = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def deny_filter(machine: str) -> bytes:
    """The filter for `machine` (as in `os.uname().machine`), 8 bytes per instruction.

    Denied calls fail with EPERM; clone3 fails with ENOSYS so that libc falls back to clone, whose flags a
    filter can read. Raises `SandboxUnavailableError` for an architecture without a table.
    """
    if machine not in AUDIT_ARCH:
        raise SandboxUnavailableError(f"no table of system calls for {machine}: use x86_64 or aarch64")
    column = 0 if machine == "x86_64" else 1

    def op(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("HBBI", code, yes, no, k)

    eperm = op(_RET, _ERRNO | errno.EPERM)
    program = [op(_LOAD, _ARCH), op(_JEQ, AUDIT_ARCH[machine], 1), op(_RET, _KILL), op(_LOAD, _NUMBER)]
    if machine == "x86_64":
        program += [op(_JGE, X32_BIT, 0, 1), eperm]
    program += [op(_JEQ, CLONE3, 0, 1), op(_RET, _ERRNO | errno.ENOSYS)]
    for number, condition in (
        (CLONE[column], op(_JSET, CLONE_NEW_ANYTHING, 0, 1)),
        (PRLIMIT64[column], op(_JEQ, 0, 1)),  # own limits only
    ):
        program += [op(_JEQ, number, 0, 4), op(_LOAD, _ARG0_LOW), condition, eperm, op(_RET, _ALLOW)]
    numbers = sorted(row[column] for row in DENIED.values() if row[column] is not None)  # type: ignore[type-var]
    for number_ in numbers:
        assert number_ is not None
        program += [op(_JEQ, number_, 0, 1), eperm]
    program.append(op(_RET, _ALLOW))
    return b"".join(program)
