"""One program and its tests: compile or receive it, fork a confined child per test, watch, kill, reap.

Out of reach of the tests (see `isolation.py`). It does not decide verdicts and never sees an expected output.
What a test did is known from its exit status and from counters of the kernel, so there is nothing that a
test could forge.
"""

# ruff: noqa: BLE001 - an exception must end the process it is in, never the fork of another one above it.

import array
import contextlib
import json
import marshal
import os
import resource
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable

from . import kernel, protocol
from .confine import Confinement
from .isolation import Isolation
from .program import execute

CODE_BYTES = 64 << 20
Stdio = tuple[int, int, int]


class Runner:
    """Everything about one program: its code, its limits and its tests, one after the other."""

    def __init__(
        self,
        conn: socket.socket,
        config: dict,
        isolation: Isolation,
        cgroup: list[int],
        message: bytes,
        program_fds: list[int],
    ) -> None:
        self.conn = conn
        self.config = config
        self.isolation = isolation
        self.confinement = Confinement(config, isolation, cgroup[:-1])
        self.cpu_fd = cgroup[-1] if cgroup else isolation.cpu_fd
        self.files = isolation.workspace()
        self.program = json.loads(message)
        self.limits = self.program["limits"]
        self.program_fd = program_fds[0] if program_fds else -1
        self.code_fd = os.memfd_create("code", os.MFD_CLOEXEC)

    def serve(self) -> None:
        """Compile, then one test per T message until E."""
        self.files.fresh()
        report = protocol.RESULT.pack(0, 0, 0, 0, protocol.STOP_NONE)
        if self.program["kind"] == protocol.PYTHON:
            report = self.compile_program()
        self.conn.send(report)
        while True:
            message, fds = receive(self.conn)
            if message[:1] != b"T":
                return  # E, or the host is gone
            self.conn.send(self.run_test(json.loads(message[1:]), fds))
            for fd in fds:
                os.close(fd)

    def compile_program(self) -> bytes:
        """Source -> marshalled code in a confined child; its report and what the compiler said."""
        null = os.open("/dev/null", os.O_RDWR)
        error_fd = os.memfd_create("error", os.MFD_CLOEXEC)
        cpu = self.config["compile_cpu"]
        limits = {**self.limits, "cpu": cpu, "wall": 2 * cpu + 5, "output": CODE_BYTES}
        report = self.run_child((null, null, error_fd), limits, self.compile_here)
        report += os.pread(error_fd, 2000, 0)
        for fd in (null, error_fd):
            os.close(fd)
        return report

    def run_test(self, test: dict, fds: list[int]) -> bytes:
        """One execution, from its input files to its collected ones."""
        names, wanted = test["files"], test["collect"]
        stdin, stdout, stderr, *rest = fds
        self.files.place(names, rest[: len(names)], wanted)
        if self.program["dev_stdin"] and self.files.stdin:
            self.files.place([self.files.stdin], [stdin], ())
        if self.program["own_source"] and "main.py" not in names:
            self.files.place(["main.py"], [self.program_fd], ())
        stdio = (stdin, stdout, stderr)
        report = self.run_child(stdio, self.limits, lambda: self.run_here(test), writes=bool(wanted))
        self.files.collect(wanted, rest[len(names) :], self.limits["collect"])
        self.files.fresh()
        return report

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

    def run_child(self, stdio: Stdio, limits: dict, body: Callable[[], int], writes: bool = False) -> bytes:
        """One confined child from fork to the last reaped descendant; returns a packed RESULT."""
        cpu_before = self.cpu_ns(0)
        start = time.monotonic_ns()
        pid = os.fork()
        if pid == 0:
            try:
                self.confinement.enter(stdio, limits, writes)
                status = body()
            except BaseException:
                traceback.print_exc()
                status = 1
            os._exit(status)
        stop = self.watch(pid, start, limits, cpu_before if self.cpu_fd >= 0 else 0)
        status, peak = 0, 0
        wall = time.monotonic_ns() - start
        self.isolation.kill(pid)
        with contextlib.suppress(ChildProcessError):
            while True:
                ended, code, usage = os.wait4(-1, 0)
                peak = max(peak, usage.ru_maxrss)
                if ended == pid:
                    status = code
        return protocol.RESULT.pack(status, self.cpu_ns(0) - cpu_before, wall, peak, stop)

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
                    self.isolation.kill(pid)  # the host is gone
                    os._exit(0)
                if pidfd in ready:
                    return protocol.STOP_NONE
                cpu = self.cpu_ns(pid) - cpu_before
                if cpu > cpu_limit:
                    return protocol.STOP_CPU
                if time.monotonic_ns() - start > wall_limit:
                    return protocol.STOP_WALL
        finally:
            os.close(pidfd)

    def compile_here(self) -> int:
        """In a child: source text -> marshalled code, or the compiler's message on stderr."""
        source = os.pread(self.program_fd, os.fstat(self.program_fd).st_size, 0)
        try:
            data = marshal.dumps(compile(source, "main.py", "exec", dont_inherit=True))
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            os.write(2, f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
            return protocol.COMPILE_ERROR_STATUS
        with open(self.code_fd, "wb", closefd=False) as file:
            file.write(data)
        return 0

    def run_here(self, test: dict) -> int:
        """In a child: the program, with what an interpreter does at exit. Native ones take its place."""
        kind, arguments = self.program["kind"], test["arguments"]
        if kind != protocol.PYTHON:
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would keep that
                signal.signal(number, signal.SIG_DFL)
            kernel.limit(resource.RLIMIT_STACK, max(kernel.STACK_BYTES, self.limits["stack"]))
        if kind == protocol.COMMAND:
            os.closerange(3, 1 << 20)
            os.execv(arguments[0], arguments)
        if kind == protocol.NATIVE:
            os.closerange(3, self.program_fd)
            os.closerange(self.program_fd + 1, 1 << 20)
            os.set_inheritable(self.program_fd, False)
            os.execve(self.program_fd, ["main", *arguments], os.environ)
        data = os.pread(self.code_fd, os.fstat(self.code_fd).st_size, 0)
        os.closerange(3, 1 << 20)
        function, crash_status = self.program["function"], self.program["crash_status"]
        return execute(marshal.loads(data), arguments, b"__del__" in data, function, crash_status)


def receive(conn: socket.socket) -> tuple[bytes, list[int]]:
    """One message with its descriptors; empty at end of file."""
    space = socket.CMSG_SPACE(protocol.MAX_DESCRIPTORS * array.array("i").itemsize)
    data, ancillary, _, _ = conn.recvmsg(protocol.MAX_MESSAGE, space)
    fds = array.array("i")
    for _, _, content in ancillary:
        fds.frombytes(content)
    return data, list(fds)


def run_apart(isolation: Isolation, make: Callable[[], Runner]) -> int:
    """Runs a runner in a process of its own until its program ends; its wait status."""
    pid = isolation.fork_runner()
    if pid == 0:
        try:
            isolation.enter_runner()
            make().serve()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]
