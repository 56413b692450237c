"""The warm interpreter inside the box: forks one limited child per test.

Runs *inside* bubblewrap, alone, as `python -S -s -P -B -m cef_env.sandbox.zygote FD`; of the project only
`program.py` is there with it, the rest is the standard library. Its processes, of which the first two are
each the pid 1 of a pid namespace:

    zygote (whole life of the box)
      runner (one program: own pid and mount namespaces; compiles, mounts, watches, kills, reaps)
        test (one test: own uid, no capabilities, seccomp, rlimits, fresh tmpfs; runs the program)

It does not decide verdicts and never sees an expected output. It parses messages of the host only: what
a test did is known from its exit status and from counters of the kernel, so there is nothing to forge.

Messages (SOCK_SEQPACKET, host speaks first): C configure, P program, T test, E end of program.
"""

# ruff: noqa: BLE001 - an exception must end the process it is in, never the fork of another one above it.

import _thread
import array
import bisect
import collections
import contextlib
import copy
import ctypes
import datetime
import decimal
import fractions
import functools
import gc
import heapq
import itertools
import json
import marshal
import math
import operator
import os
import random
import re
import resource
import select
import signal
import socket
import statistics
import string
import struct
import sys
import time
import traceback
import typing
from collections.abc import Callable
from types import ModuleType

from cef_env.sandbox.program import ExitBuiltin, execute

# Programs import these most; a fork inherits them warm.
PRELOADED: tuple[ModuleType, ...] = (
    bisect,
    collections,
    copy,
    datetime,
    decimal,
    fractions,
    functools,
    heapq,
    itertools,
    math,
)
PRELOADED += (operator, random, re, statistics, string, typing)

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
CLONE_NUMBER = {"x86_64": 56, "aarch64": 220}
CAPSET_NUMBER = {"x86_64": 126, "aarch64": 91}
MS_NOSUID_NODEV, MNT_DETACH = 2 | 4, 2
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 4, 22, 38, 47
STACK_BYTES = 256 << 20
THREAD_STACK_BYTES = 8 << 20
RESULT = struct.Struct("<iqqqB")
"""wait status, CPU ns, wall ns, peak resident KiB, stop reason."""
STOP_NONE, STOP_CPU, STOP_WALL = 0, 1, 2
COMPILE_ERROR_STATUS = 3
CODE_BYTES = 64 << 20

libc = ctypes.CDLL(None, use_errno=True)
raw = ctypes.PyDLL(None)  # keeps the interpreter lock, as a fork must


def check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def clone(flags: int) -> int:
    """fork() with namespaces. unshare() cannot serve: a second unshare(NEWPID) fails with ENOMEM."""
    # Out of int range for ctypes' default conversion, hence the explicit widths.
    number = CLONE_NUMBER[os.uname().machine]
    zero = ctypes.c_void_p(0)
    ctypes.pythonapi.PyOS_BeforeFork()
    arguments = (ctypes.c_long(number), ctypes.c_ulong(flags | signal.SIGCHLD), zero, zero, zero, zero)
    pid = int(raw.syscall(*arguments))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("clone of the runner failed")
    return pid


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


class Runner:
    """Everything about one program: its code, its limits and its tests, one after the other."""

    def __init__(
        self, conn: socket.socket, config: dict, cgroup: list, message: bytes, program_fd: int
    ) -> None:
        self.conn = conn
        self.config = config
        self.join_fds = cgroup[:-1]
        self.cpu_fd = cgroup[-1] if cgroup else -1
        self.limits = json.loads(message)
        self.program_fd = program_fd
        self.code_fd = os.memfd_create("code")
        self.clean_state: tuple | None = None
        filter_ = bytes.fromhex(config["seccomp"])
        self._filter = ctypes.create_string_buffer(filter_, len(filter_))
        address = struct.pack("HxxxxxxQ", len(filter_) // 8, ctypes.addressof(self._filter))
        self.seccomp = ctypes.create_string_buffer(address, len(address))

    def serve(self) -> None:
        """Compile, then one test per T message until E."""
        self.fresh_files()
        null = os.open("/dev/null", os.O_RDWR)
        error_fd = os.memfd_create("error")
        cpu = self.config["compile_cpu"]
        compiling = {"cpu": cpu, "wall": 2 * cpu + 5, "output": CODE_BYTES}
        report = self.run_child((null, null, error_fd), {**self.limits, **compiling}, self.compile_program)
        os.close(self.program_fd)
        self.conn.send(report + os.pread(error_fd, 2000, 0))
        os.close(error_fd)
        while True:
            message, fds = receive(self.conn)
            if message[:1] != b"T":
                return  # E, or the host is gone
            report = self.run_child(tuple(fds), self.limits, self.run_program)
            for fd in fds:
                os.close(fd)
            self.fresh_files()
            self.conn.send(report)

    def fresh_files(self) -> None:
        """A new tmpfs for the work folder, /tmp and /dev/shm (links into it), unless nothing was touched."""
        if self.clean_state is not None:
            if self.files_state() == self.clean_state:
                return
            check(libc.umount2(b"/box", MNT_DETACH), "umount /box")
        size, inodes = self.config["tmpfs_bytes"], self.config["tmpfs_inodes"]
        options = f"size={size},nr_inodes={inodes},mode=755".encode()
        check(libc.mount(b"box", b"/box", b"tmpfs", ctypes.c_ulong(MS_NOSUID_NODEV), options), "mount /box")
        for name in ("/box/work", "/box/shm"):
            os.mkdir(name)
            os.chmod(name, 0o1777)
        self.clean_state = self.files_state()

    @staticmethod
    def files_state() -> tuple:
        """What any lasting change must alter: used blocks and inodes, and ctime, which nobody can set."""
        usage = os.statvfs("/box")
        marks = [(s.st_ctime_ns, s.st_mode) for s in map(os.stat, ("/box", "/box/work", "/box/shm"))]
        return (usage.f_bfree, usage.f_ffree, marks)

    def cpu_ns(self, pid: int) -> int:
        """CPU of everything in the test's cgroup; without one, of the main process while it lives."""
        if self.cpu_fd >= 0:
            text = os.pread(self.cpu_fd, 256, 0)
            return int(text.split()[1]) * 1000 if text.startswith(b"usage_usec") else int(text)
        if pid == 0:
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return int((usage.ru_utime + usage.ru_stime) * 1e9)
        try:
            return time.clock_gettime_ns((~pid << 3) | 2)  # the CPU clock of another process
        except OSError:
            return 0  # it has just ended

    def run_child(self, fds: tuple, limits: dict, body: Callable[[], int]) -> bytes:
        """One limited child from fork to the last reaped descendant; returns a packed RESULT."""
        cpu_before = self.cpu_ns(0)
        start = time.monotonic_ns()
        pid = os.fork()
        if pid == 0:
            try:
                self.enter(fds, limits)
                status = body()
            except BaseException:
                traceback.print_exc()
                status = 1
            os._exit(status)
        stop = self.watch(pid, start, limits, cpu_before if self.cpu_fd >= 0 else 0)
        status, peak = 0, 0
        wall = time.monotonic_ns() - start
        # One kill(-1) reaches every process of this pid namespace but us; forks in flight see the signal.
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                ended, code, usage = os.wait4(-1, 0)
                peak = max(peak, usage.ru_maxrss)
                if ended == pid:
                    status = code
        return RESULT.pack(status, self.cpu_ns(0) - cpu_before, wall, peak, stop)

    def watch(self, pid: int, start: int, limits: dict, cpu_before: int) -> int:
        """Wait for the main process; kill nothing, say why the test must stop."""
        pidfd = os.pidfd_open(pid)
        events = select.poll()
        events.register(pidfd, select.POLLIN)
        events.register(self.conn, select.POLLIN)
        cpu_limit, wall_limit = int(limits["cpu"] * 1e9), int(limits["wall"] * 1e9)
        cpu = 0
        try:
            while True:
                left = wall_limit - (time.monotonic_ns() - start)
                # Several cores may burn at once; 5 ms keeps the watcher itself cheap.
                next_look = max(5_000_000, (cpu_limit - cpu) // self.config["cores"])
                ready = {fd for fd, _ in events.poll(max(0, min(left, next_look)) // 1_000_000 + 1)}
                if self.conn.fileno() in ready:
                    os._exit(0)  # the host is gone; as pid 1 we take everything with us
                if pidfd in ready:
                    return STOP_NONE
                cpu = self.cpu_ns(pid) - cpu_before
                if cpu > cpu_limit:
                    return STOP_CPU
                if time.monotonic_ns() - start > wall_limit:
                    return STOP_WALL
        finally:
            os.close(pidfd)

    def enter(self, fds: tuple, limits: dict) -> None:
        """In the child: become a nobody with limits. The cgroup comes last, so set-up is not charged."""
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
        os.setsid()
        os.chdir("/box/work")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        cpu = int(limits["cpu"])
        for kind, soft, hard in (
            (resource.RLIMIT_CPU, cpu + 2, cpu + 3),
            (resource.RLIMIT_FSIZE, limits["output"] + 1, limits["output"] + 1),
            (resource.RLIMIT_NOFILE, 256, 256),
            (resource.RLIMIT_CORE, 0, 0),
            (resource.RLIMIT_MEMLOCK, 0, 0),
            (resource.RLIMIT_MSGQUEUE, 0, 0),
            (resource.RLIMIT_SIGPENDING, 256, 256),
        ):
            limit(kind, soft, hard)
        if not self.join_fds:
            limit(resource.RLIMIT_NPROC, self.config["processes"])
            limit(resource.RLIMIT_DATA, limits["data"])
            limit(resource.RLIMIT_AS, limits["data"] + (4 << 30))
        uid = self.config["uid"]
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        libc.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)
        header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
        check(libc.syscall(ctypes.c_long(CAPSET_NUMBER[os.uname().machine]), header, nothing), "capset")
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        mode, where = ctypes.c_ulong(2), ctypes.c_void_p(ctypes.addressof(self.seccomp))
        check(libc.prctl(PR_SET_SECCOMP, mode, where, 0, 0), "seccomp")
        for fd in self.join_fds:
            os.write(fd, b"0")

    def compile_program(self) -> int:
        """In a child: source text -> marshalled code, or the compiler's message on stderr."""
        source = os.pread(self.program_fd, os.fstat(self.program_fd).st_size, 0)
        try:
            data = marshal.dumps(compile(source, "main.py", "exec", dont_inherit=True))
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            os.write(2, f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
            return COMPILE_ERROR_STATUS
        with open(self.code_fd, "wb", closefd=False) as file:
            file.write(data)
        return 0

    def run_program(self) -> int:
        """In a child: the program as `__main__`, then what the interpreter does at exit."""
        code = marshal.loads(os.pread(self.code_fd, os.fstat(self.code_fd).st_size, 0))
        os.closerange(3, 1 << 20)
        return execute(code)


def receive(conn: socket.socket) -> tuple[bytes, list[int]]:
    """One message with its descriptors; empty at end of file."""
    data, ancillary, _, _ = conn.recvmsg(1 << 16, socket.CMSG_SPACE(8 * 4))
    fds = array.array("i")
    for _, _, content in ancillary:
        fds.frombytes(content)
    return data, list(fds)


def main() -> None:
    large_main_stack()
    sys.path.remove(os.environ.pop("PYTHONPATH"))  # programs see a plain interpreter
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a pid 1 without handlers ignores its namespace's signals
    builtins = sys.modules["builtins"]
    builtins.exit, builtins.quit = ExitBuiltin("exit"), ExitBuiltin("quit")  # type: ignore[attr-defined]
    conn = socket.socket(fileno=int(sys.argv[1]))
    message, cgroup = receive(conn)
    config = json.loads(message[1:])
    conn.send(b"ready")
    _thread.stack_size(0)
    gc.collect()
    gc.freeze()  # a collection in a child must not touch, and so copy, the pages of the zygote
    while True:
        message, fds = receive(conn)
        if message[:1] != b"P":
            return
        pid = clone(CLONE_NEWPID | CLONE_NEWNS)
        if pid == 0:
            try:
                Runner(conn, config, cgroup, message[1:], fds[0]).serve()
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        os.close(fds[0])
        _, status = os.waitpid(pid, 0)
        if status != 0:
            sys.exit("the runner died")  # the host sees the end of file and knows that there is no verdict


if __name__ == "__main__":
    main()
