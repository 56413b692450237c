"""The host's side of a box: start it, load a program, run it on inputs, close it.

One `Box` is one warm zygote (see `inside/zygote.py`) in isolation. Reports what happened on each input and
judges nothing. Not thread-safe; a box whose method raised `BoxError` is dead: close it.
"""

import array
import fcntl
import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from cef_env.errors import UserError
from cef_env.sandbox import seccomp
from cef_env.sandbox.cgroups import BoxCgroup
from cef_env.sandbox.inside import protocol
from cef_env.sandbox.launch import launch
from cef_env.sandbox.tiers import Plan
from cef_env.sandbox.types import MAX_PROCESSES, BoxError, Contents, Execution, Limits, Stop
from cef_env.sandbox.users import draw_user

START_TIMEOUT_S = 30.0
REPLY_SLACK_S = 30.0
COMPILE_CPU_S = 10.0
TMPFS_INODES = 4096
STDERR_BYTES = 1 << 16
INTERPRETER_BYTES = 16 << 20
"""Resident size of the warm interpreter itself, which rlimits count and control groups do not."""
THREAD_STACKS_BYTES = 1 << 30
"""What RLIMIT_DATA allows above the memory limit: stacks of threads are large and mostly untouched. The peak
resident size decides the verdict; this only protects the machine."""
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_STOPS = {protocol.STOP_NONE: Stop.NONE, protocol.STOP_CPU: Stop.CPU, protocol.STOP_WALL: Stop.WALL}


class Box:
    """A started box. Raises `BoxError` when it does not come up."""

    def __init__(self, plan: Plan, contents: Contents = Contents()) -> None:  # noqa: B008 - frozen
        self.plan = plan
        self.contents = contents
        self.limits: Limits | None = None
        self._interpreter_bytes = INTERPRETER_BYTES
        self._loaded = False
        self._closed = False
        self._cgroup = BoxCgroup(plan.cgroups, MAX_PROCESSES) if plan.cgroups else None
        try:
            self.zygote = launch(plan, contents)
        except BaseException:
            if self._cgroup:
                self._cgroup.close()
            raise
        try:
            self._configure()
        except BaseException:
            self.close()
            raise

    def _configure(self) -> None:
        config = {
            **self.zygote.config,
            "seccomp": seccomp.deny_filter(
                os.uname().machine, self.zygote.seccomp, sum_children=self._cgroup is None
            ).hex(),
            "own_pid": seccomp.OWN_PID,
            "uid": draw_user() if self.plan.own_user else None,
            "cores": os.cpu_count() or 1,
            "tmpfs_bytes": self.contents.files_bytes,
            "tmpfs_inodes": TMPFS_INODES,
            "compile_cpu": COMPILE_CPU_S,
            "packages": self.contents.packages,
        }
        fds = self._cgroup.open_fds() if self._cgroup else []
        try:
            self._send(b"C" + json.dumps(config).encode(), fds)
        finally:
            for fd in fds:
                os.close(fd)
        reply = self._receive(START_TIMEOUT_S)
        if reply.startswith(protocol.MISSING):
            raise UserError(reply.removeprefix(protocol.MISSING).decode())
        if reply != protocol.READY:
            raise BoxError(f"the box did not start: {self.zygote.complaint()}")

    def load(
        self,
        program: str,
        limits: Limits,
        function: str | None = None,
        crash_status: int = 1,
        own_source: bool = False,
    ) -> str | None:
        """Give the box a Python program; returns the compiler's message, or None when it compiles.

        The program stays loaded until the next `load`. With `function`, a test calls that method of class
        `Solution` (or that function) on the values in stdin: see `inside/functional.py`.
        A program that ends with an uncaught exception exits with `crash_status`. With `own_source`, it
        finds its text where its `__file__` is.
        """
        try:
            source = program.encode()
        except UnicodeEncodeError as error:
            self.unload()
            return f"SyntaxError: the program is not valid Unicode: {error.reason} at position {error.start}"
        self._interpreter_bytes = INTERPRETER_BYTES
        reply = self._load(protocol.PYTHON, limits, source, function, crash_status, own_source)
        status, _, _, _, stop = protocol.RESULT.unpack(reply[: protocol.RESULT.size])
        if status == 0 and stop == protocol.STOP_NONE:
            return None
        text = reply[protocol.RESULT.size :].decode("utf-8", "replace").strip()
        if os.waitstatus_to_exitcode(status) == protocol.COMPILE_ERROR_STATUS and text:
            return text
        return "the program is too large to compile within the limits"

    def load_native(self, executable: bytes, limits: Limits) -> None:
        """Give the box an executable file."""
        self._interpreter_bytes = 0
        self._load(protocol.NATIVE, limits, executable)

    def load_command(self, limits: Limits) -> None:
        """Let the arguments of `run` name an executable that lies in the box: a compiler."""
        self._interpreter_bytes = 0
        self._load(protocol.COMMAND, limits)

    def _load(
        self,
        kind: str,
        limits: Limits,
        content: bytes | None = None,
        function: str | None = None,
        crash_status: int = 1,
        own_source: bool = False,
    ) -> bytes:
        self.unload()
        self.limits = limits
        sent = {
            "cpu": limits.cpu_s,
            "wall": limits.wall_s,
            "output": limits.output_bytes,
            "data": limits.memory_bytes + THREAD_STACKS_BYTES,
            # The main stack may be all of the memory, where something exact limits that; else threads, whose
            # stacks are as large, would meet RLIMIT_DATA.
            "stack": limits.memory_bytes if self._cgroup else 0,
            "collect": limits.output_bytes,
            "processes": MAX_PROCESSES + self.plan.processes_of_ours(),
        }
        if self._cgroup:
            self._cgroup.limit_memory(limits.memory_bytes)
            self._cgroup.start_test()
        fds = [] if content is None else [_memfd("program", content)]
        try:
            message = {"kind": kind, "limits": sent, "function": function, "crash_status": crash_status}
            message["own_source"] = own_source
            # Copying every input to where /dev/stdin points would cost time that hardly any program needs.
            message["dev_stdin"] = content is not None and b"/dev/stdin" in content
            self._send(b"P" + json.dumps(message).encode(), fds)
        finally:
            for fd in fds:
                os.close(fd)
        self._loaded = True
        return self._receive(3 * COMPILE_CPU_S + REPLY_SLACK_S)

    def run(
        self,
        stdin: bytes,
        arguments: Sequence[str] = (),
        files: Mapping[str, bytes] | None = None,
        collect: Sequence[str] = (),
        merge: bool = False,
    ) -> Execution:
        """Run the loaded program on one input.

        Args:
            merge: stderr into stdout, in the order written; `Execution.stderr` is empty then.
            arguments: of the command line, after the program's name; of a command: the whole of it.
            files: put into its working directory, read-only to it.
            collect: names of files to bring back from there; their folders are made beforehand.
        """
        if self.limits is None or not self._loaded:
            raise BoxError("no program is loaded")
        limits, files = self.limits, files or {}
        if self._cgroup:
            self._cgroup.start_test()
        message = {"arguments": list(arguments), "files": list(files), "collect": list(collect)}
        fds = [_sealed_input(stdin)]
        try:
            fds += [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("stdout", "stderr")]
            if merge:
                os.dup2(fds[1], fds[2], inheritable=False)
            fds += [_memfd("file", content) for content in files.values()]
            fds += [os.memfd_create("collected", os.MFD_CLOEXEC) for _ in collect]
            self._send(b"T" + json.dumps(message).encode(), fds)
            status, stop, cpu, wall, peak, out_of_memory = self._report(limits.wall_s + REPLY_SLACK_S)
            sizes = [os.fstat(fd).st_size for fd in fds[1:3]]
            most = limits.output_bytes + 1
            return Execution(
                status=status,
                stop=stop,
                cpu_s=cpu / 1e9,
                wall_s=wall / 1e9,
                peak_bytes=peak,
                out_of_memory=out_of_memory,
                stdout=os.pread(fds[1], min(sizes[0], most), 0),
                stderr=b"" if merge else os.pread(fds[2], STDERR_BYTES, max(0, sizes[1] - STDERR_BYTES)),
                output_exceeded=max(sizes) > limits.output_bytes,
                files={name: os.pread(fd, most, 0) for name, fd in zip(collect, fds[3 + len(files) :])},
            )
        finally:
            for fd in fds:
                os.close(fd)

    def begin(self, stdin: int, output: int, arguments: Sequence[str] = ()) -> None:
        """Start the loaded program on descriptors of the caller's, and do not wait: `end` does.

        Its output goes to `output` in the order written. Nothing else may be asked of the box in between.
        """
        if self._cgroup:
            self._cgroup.start_test()
        message = {"arguments": list(arguments), "files": [], "collect": []}
        self._send(b"T" + json.dumps(message).encode(), [stdin, output, output])

    def forget_memory(self) -> None:
        """Of what `begin` started: what it did to memory until now did not end it."""
        if self._cgroup:
            self._cgroup.start_test()

    def end(self, timeout_s: float) -> tuple[int, bool]:
        """Wait for the end of what `begin` started; its status, and whether it was killed for its memory.

        Only a control group kills for that. Without one an allocation fails, which a program may survive: the
        peak of its life does not tell what ended it.
        """
        status, _, _, _, _, out_of_memory = self._report(timeout_s)
        return status, out_of_memory and self._cgroup is not None

    def _report(self, timeout_s: float) -> tuple[int, Stop, int, int, int, bool]:
        """What the runner says of one test: status, stop, CPU ns, wall ns, peak bytes, out of memory."""
        reply = self._receive(timeout_s)
        if len(reply) != protocol.RESULT.size:
            raise BoxError(f"the box sent a broken report: {self.zygote.complaint()}")
        status, cpu, wall, peak_kib, stop = protocol.RESULT.unpack(reply)
        if self._cgroup:
            peak, out_of_memory = self._cgroup.end_test()
        else:
            peak = max(0, peak_kib * 1024 - self._interpreter_bytes)
            out_of_memory = self.limits is not None and peak > self.limits.memory_bytes
        return os.waitstatus_to_exitcode(status), _STOPS[stop], cpu, wall, peak, out_of_memory

    @property
    def alive(self) -> bool:
        """Whether the zygote still runs; a box that died while idle is no use."""
        return self.zygote.alive

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
        self.zygote.close()
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
            self.zygote.conn.sendmsg([message], rights)
        except OSError as error:
            raise BoxError(f"the box is gone: {self.zygote.complaint() or error.strerror}") from error

    def _receive(self, timeout_s: float) -> bytes:
        self.zygote.conn.settimeout(timeout_s)
        try:
            reply = self.zygote.conn.recv(protocol.MAX_MESSAGE)
        except TimeoutError as error:
            raise BoxError(f"the box did not answer within {timeout_s:.0f} s") from error
        except OSError as error:
            raise BoxError(f"the box is gone: {self.zygote.complaint()} ({error.strerror})") from error
        if not reply:
            raise BoxError(f"the box died: {self.zygote.complaint()}")
        return reply


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
