"""The host's side of a box: start it, load a program, run it on inputs, close it.

One `Box` is one warm zygote (see `zygote.py`) inside bubblewrap. Reports what happened on each input and
judges nothing. Not thread-safe; a box whose method raised `BoxError` is dead: close it.
"""

import array
import contextlib
import fcntl
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from cef_env.errors import JudgeError
from cef_env.sandbox import bwrap, seccomp, zygote
from cef_env.sandbox.cgroups import BoxCgroup
from cef_env.sandbox.tiers import Plan

START_TIMEOUT_S = 30.0
REPLY_SLACK_S = 30.0
COMPILE_CPU_S = 10.0
MAX_PROCESSES = 96
TMPFS_BYTES = 64 << 20
TMPFS_INODES = 4096
INTERPRETER_BYTES = 16 << 20
"""Resident size of the warm interpreter itself, which rlimits count and control groups do not."""
THREAD_STACKS_BYTES = 1 << 30
"""What RLIMIT_DATA allows above the memory limit: stacks of threads are large and mostly untouched. The peak
resident size decides the verdict; this only protects the machine."""
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_uids = itertools.count(20_000 + os.getpid() * 16 % 30_000)


class BoxError(JudgeError):
    """The box died or broke the protocol: nothing is known about the program."""


class Stop(StrEnum):
    """Why the watcher ended a test."""

    NONE = "none"
    """It did not: the program ended by itself."""
    CPU = "cpu"
    """CPU time over the limit."""
    WALL = "wall"
    """Idle: wall time over the guard."""


_STOPS = {zygote.STOP_NONE: Stop.NONE, zygote.STOP_CPU: Stop.CPU, zygote.STOP_WALL: Stop.WALL}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one test."""

    cpu_s: float
    memory_bytes: int
    output_bytes: int = 16 << 20
    """For stdout, and as much again for stderr."""

    @property
    def wall_s(self) -> float:
        """The guard against idle programs: never near the CPU limit, so load cannot trip it."""
        return max(5 * self.cpu_s, self.cpu_s + 5)


@dataclass(frozen=True, slots=True)
class Execution:
    """What one program did on one input."""

    status: int
    """As `os.waitstatus_to_exitcode`: the exit status, or minus the signal."""
    stop: Stop
    cpu_s: float
    wall_s: float
    peak_bytes: int
    out_of_memory: bool
    """It needed more memory than the limit (kernel's count, or peak resident size)."""
    stdout: bytes
    """At most the output limit plus one byte."""
    stderr: bytes
    """The last 4 KiB."""
    output_exceeded: bool

    @property
    def killed_from_outside(self) -> bool:
        """A SIGKILL that no limit explains: by the program itself, or by somebody on the host."""
        ours = self.stop is not Stop.NONE or self.out_of_memory
        return self.status == -signal.SIGKILL and not ours


class Box:
    """A started box. Raises `BoxError` when it does not come up."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.limits: Limits | None = None
        self._loaded = False
        self._closed = False
        self._stderr = os.memfd_create("box-stderr", os.MFD_CLOEXEC)
        self._cgroup = BoxCgroup(plan.cgroups, MAX_PROCESSES) if plan.cgroups else None
        self._conn, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            arguments = [str(theirs.fileno())]
            command = bwrap.box_command(bwrap.find_bwrap(), arguments, user_namespace=plan.user_namespace)
            # die-with-parent means the *thread* that starts it: use one that lives as long as we do.
            self.process = _spawner().submit(self._spawn, command, theirs.fileno()).result()
        finally:
            theirs.close()
        try:
            self._configure()
        except BaseException:
            self.close()
            raise

    def _spawn(self, command: list[str], fd: int) -> "subprocess.Popen[bytes]":
        # No preexec_fn: the parent may be a trainer with many threads, and this way Popen uses vfork.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            pass_fds=(fd,),
            env={},
            cwd="/",
            start_new_session=True,  # Ctrl-C is for us to handle, not for bubblewrap to die of
        )

    def _configure(self) -> None:
        config = {
            "seccomp": seccomp.deny_filter(os.uname().machine).hex(),
            "uid": None if self.plan.user_namespace else next(_uids),
            "cores": os.cpu_count() or 1,
            "processes": MAX_PROCESSES,
            "tmpfs_bytes": TMPFS_BYTES,
            "tmpfs_inodes": TMPFS_INODES,
            "compile_cpu": COMPILE_CPU_S,
        }
        fds = self._cgroup.open_fds() if self._cgroup else []
        try:
            self._send(b"C" + json.dumps(config).encode(), fds)
        finally:
            for fd in fds:
                os.close(fd)
        if self._receive(START_TIMEOUT_S) != b"ready":
            raise BoxError(f"the box did not start: {self._complaint()}")

    def load(self, program: str, limits: Limits) -> str | None:
        """Give the box a program; returns the compiler's message, or None when it compiles.

        The program stays loaded until the next `load`.
        """
        self.unload()
        try:
            source = program.encode()
        except UnicodeEncodeError as error:
            return f"SyntaxError: the program is not valid Unicode: {error.reason} at position {error.start}"
        self.limits = limits
        data = limits.memory_bytes + THREAD_STACKS_BYTES
        message = {"cpu": limits.cpu_s, "wall": limits.wall_s, "output": limits.output_bytes, "data": data}
        if self._cgroup:
            self._cgroup.limit_memory(limits.memory_bytes)
            self._cgroup.start_test()
        fd = _memfd("program", source)
        try:
            self._send(b"P" + json.dumps(message).encode(), [fd])
        finally:
            os.close(fd)
        self._loaded = True
        reply = self._receive(3 * COMPILE_CPU_S + REPLY_SLACK_S)
        status, _, _, _, stop = zygote.RESULT.unpack(reply[: zygote.RESULT.size])
        if status == 0 and stop == zygote.STOP_NONE:
            return None
        text = reply[zygote.RESULT.size :].decode("utf-8", "replace").strip()
        if os.waitstatus_to_exitcode(status) == zygote.COMPILE_ERROR_STATUS and text:
            return text
        return "the program is too large to compile within the limits"

    def run(self, stdin: bytes) -> Execution:
        """Run the loaded program on one input."""
        if self.limits is None or not self._loaded:
            raise BoxError("no program is loaded")
        limits = self.limits
        if self._cgroup:
            self._cgroup.start_test()
        fds = [_sealed_input(stdin)]
        try:
            fds += [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("stdout", "stderr")]
            self._send(b"T", fds)
            reply = self._receive(limits.wall_s + REPLY_SLACK_S)
            if len(reply) != zygote.RESULT.size:
                raise BoxError(f"the box sent a broken report: {self._complaint()}")
            status, cpu, wall, peak_kib, stop = zygote.RESULT.unpack(reply)
            if self._cgroup:
                peak, out_of_memory = self._cgroup.end_test()
            else:
                peak = max(0, peak_kib * 1024 - INTERPRETER_BYTES)
                out_of_memory = peak > limits.memory_bytes
            sizes = [os.fstat(fd).st_size for fd in fds[1:]]
            return Execution(
                status=os.waitstatus_to_exitcode(status),
                stop=_STOPS[stop],
                cpu_s=cpu / 1e9,
                wall_s=wall / 1e9,
                peak_bytes=peak,
                out_of_memory=out_of_memory,
                stdout=os.pread(fds[1], min(sizes[0], limits.output_bytes + 1), 0),
                stderr=os.pread(fds[2], 4096, max(0, sizes[1] - 4096)),
                output_exceeded=max(sizes) > limits.output_bytes,
            )
        finally:
            for fd in fds:
                os.close(fd)

    @property
    def alive(self) -> bool:
        """Whether bubblewrap still runs; a box that died while idle is no use."""
        return self.process.poll() is None

    def unload(self) -> None:
        """Forget the program; the box can load another."""
        if self._loaded:
            self._loaded = False
            self._send(b"E", [])

    def close(self) -> None:
        """End the box and everything in it. Idempotent."""
        if self._closed:
            return
        self._closed = True
        # Killing bubblewrap kills the pid namespace; an orderly end would only be slower.
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        # The end of file comes when the last process of the box has let go of its end.
        with contextlib.suppress(OSError):
            self._conn.settimeout(2.0)
            while self._conn.recv(1 << 16):
                pass
        self._conn.close()
        os.close(self._stderr)
        if self._cgroup:
            self._cgroup.close()

    def __enter__(self) -> "Box":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, message: bytes, fds: list[int]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._conn.sendmsg([message], rights)
        except OSError as error:
            raise BoxError(f"the box is gone: {self._complaint() or error.strerror}") from error

    def _receive(self, timeout_s: float) -> bytes:
        self._conn.settimeout(timeout_s)
        try:
            reply = self._conn.recv(1 << 16)
        except TimeoutError as error:
            raise BoxError(f"the box did not answer within {timeout_s:.0f} s") from error
        except OSError as error:
            raise BoxError(f"the box is gone: {self._complaint()} ({error.strerror})") from error
        if not reply:
            raise BoxError(f"the box died: {self._complaint()}")
        return reply

    def _complaint(self) -> str:
        """The last line that bubblewrap or the zygote printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.5)  # its message comes before its end
        lines = os.pread(self._stderr, 1 << 16, 0).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"


_spawn_lock = threading.Lock()
_spawn_pool: tuple[int, ThreadPoolExecutor] | None = None


def _spawner() -> ThreadPoolExecutor:
    """The one thread of this process that starts boxes; a forked child gets its own."""
    global _spawn_pool
    with _spawn_lock:
        if _spawn_pool is None or _spawn_pool[0] != os.getpid():
            _spawn_pool = (os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="cef-box-spawner"))
        return _spawn_pool[1]


def _memfd(name: str, data: bytes) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return fd


def _sealed_input(data: bytes) -> int:
    """A descriptor to read `data` from, which nobody can write to."""
    fd = _memfd("stdin", data)
    try:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        return os.open(Path(f"/proc/self/fd/{fd}"), os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(fd)
