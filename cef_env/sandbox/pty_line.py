"""A bash on a pseudo-terminal in bubblewrap: starting it, reading and writing, signals, its end.

The processes of a terminal, all in its own pid namespace but for the first:

    bubblewrap
      sh      pid 1: starts a shell, reports its end, starts the next when told so; the files live as it does
        bash  its own user, no capabilities, system calls filtered, limited (see `inside/terminal.py`)

There is no controlling terminal: `isatty` holds and Ctrl-C comes as a signal from the host, but nothing in
there can hang the terminal up, push input into it or read what is typed. Does not know when a command has
ended: see `shell.py`.
"""

import array
import contextlib
import itertools
import marshal
import os
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Mapping

from pexpect import EOF, TIMEOUT
from pexpect.fdpexpect import fdspawn

from cef_env.sandbox import terminal_bwrap
from cef_env.sandbox.beneath import open_beneath
from cef_env.sandbox.cgroups import BoxCgroup
from cef_env.sandbox.inside.terminal import HEADER_BYTES
from cef_env.sandbox.launch import spawner
from cef_env.sandbox.processes import descendants, namespace, parent
from cef_env.sandbox.shell import READ_BYTES, START_TIMEOUT_S, ShellEnded, TerminalLimits
from cef_env.sandbox.tiers import Plan
from cef_env.sandbox.types import BoxError

ROWS, COLUMNS = 50, 120
END_TIMEOUT_S = 10.0
_CREDENTIALS = struct.Struct("3i")
_first_uid = 60_000 + os.getpid() * 16 % 5_000
# Apart from those of boxes, and below what containers without privileges may map.
_uids = itertools.chain(range(_first_uid, 65_000), itertools.cycle(range(60_000, 65_000)))


class _Spawn(fdspawn):
    """pexpect on the master side of a terminal; the end of the shell is reported by another descriptor."""

    def __init__(self, master: int, control: socket.socket) -> None:
        super().__init__(master, maxread=READ_BYTES, use_poll=True)
        self.delaybeforesend = self.delayafterread = None
        self._poll = select.poll()
        self._poll.register(master, select.POLLIN)
        self._poll.register(control, select.POLLIN)

    def read_nonblocking(self, size: int = 1, timeout: float = -1) -> bytes:
        ready = {fd for fd, _ in self._poll.poll(max(0.0, timeout) * 1000)}
        if self.child_fd in ready:
            # Twice the size of a terminal's buffer at most comes at once; a flood is read in larger pieces.
            pieces, total = [], 0
            with contextlib.suppress(BlockingIOError):
                while total < size:
                    pieces.append(os.read(self.child_fd, size - total))
                    total += len(pieces[-1])
            if pieces:
                return b"".join(pieces)
        if ready - {self.child_fd}:
            raise EOF("the shell ended")
        raise TIMEOUT("nothing to read")


class PtyLine:
    """A `Line` (see `shell.py`) to a bash in bubblewrap on this machine."""

    preamble = ""

    def __init__(self, plan: Plan, files: Mapping[str, bytes], limits: TerminalLimits) -> None:
        self.limits = limits
        self.plan = plan
        self._uid = None if plan.user_namespace else next(_uids)
        self._first = True
        self._shell = -1
        self._init_fd = -1
        self._closed = False
        self._stack = contextlib.ExitStack()
        with self._stack:
            self._cgroup = BoxCgroup(plan.cgroups, limits.processes + 1) if plan.cgroups else None
            self._counter = -1
            if self._cgroup:
                self._stack.callback(self._cgroup.close)
                # Files in memory are memory: full folders must not leave the programs without.
                self._cgroup.limit_memory(limits.memory_bytes + limits.files_bytes)
                *joins, self._counter = self._cgroup.open_fds()
                for fd in (*joins, self._counter):
                    self._stack.callback(os.close, fd)
                self._joins = joins
            else:
                self._joins = []
            self._files = files
            self._control, theirs = socket.socketpair()
            self._stack.callback(self._control.close)
            self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._master, slave = os.openpty()
            self._stack.callback(os.close, self._master)
            with theirs, os.fdopen(slave, "rb", 0):
                self._process = spawner().submit(self._launch, plan, slave, theirs).result()
            self._stack.callback(self._end)
            os.set_blocking(self._master, False)
            self._spawn = _Spawn(self._master, self._control)
            self._stack = self._stack.pop_all()

    def _launch(self, plan: Plan, slave: int, control: socket.socket) -> "subprocess.Popen[bytes]":
        """On the thread whose end is the end of what it starts; vfork, for the caller may be huge."""
        # Programs may write to the terminal, not read from it: only the shell's own stdin can, from here.
        os.fchmod(slave, 0o222)
        with contextlib.ExitStack() as stack:
            output = os.open(f"/proc/self/fd/{slave}", os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
            stack.callback(os.close, output)
            command, fds = terminal_bwrap.command(self._uid, stack)
            return subprocess.Popen(
                command,
                stdin=control.fileno(),
                stdout=output,
                stderr=slave,
                pass_fds=fds,
                env={},
                cwd="/",
                start_new_session=True,
            )

    def start_shell(self, end: bool) -> None:
        if end:
            self._kill([self._shell], signal.SIGKILL)
            self._wait_for_end()
        if not self._first:
            self._send(b"\n")  # pid 1 waits for this
        self._set_terminal()
        self._configure()
        data, ancillary, _, _ = self._receive(1)
        if data != b"+":
            raise BoxError(f"the terminal did not start: {self._complaint()}")
        (self._shell, _, _) = _CREDENTIALS.unpack(ancillary[0][2][: _CREDENTIALS.size])
        if self._first:
            self._first = False
            self._init = parent(self._shell)
            self._init_fd = os.pidfd_open(self._init)

    def _set_terminal(self) -> None:
        """Every byte as it comes, in both directions; a command may have changed that."""
        mode = termios.tcgetattr(self._master)
        mode[0] = mode[1] = 0
        mode[3] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._master, termios.TCSANOW, mode)
        termios.tcsetwinsize(self._master, (ROWS, COLUMNS))

    def _configure(self) -> None:
        limits = self.limits
        config = terminal_bwrap.settings(self._uid) | {
            "first": self._first,
            "files": {name: len(content) for name, content in self._files.items()},
            "files_bytes": limits.files_bytes,
            "inodes": limits.files + 4,
            "memory_bytes": limits.memory_bytes,
            "processes": limits.processes,
            "cpu_s": max(1, int(limits.cpu_s)),
        }
        with contextlib.ExitStack() as stack:
            fd = terminal_bwrap.memory_file(b"".join(self._files.values()), stack)
            rights = array.array("i", [fd, *self._joins])
            # marshal: it is the same interpreter, and json would cost it milliseconds to import.
            data = marshal.dumps(config)
            header = len(data).to_bytes(HEADER_BYTES, "little")
            self._send(header + data, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        self._files = {}

    def write(self, data: bytes) -> None:
        if not self.alive:  # what is in it may live on for a moment
            raise BoxError("the terminal is gone")
        self._set_terminal()
        view, deadline = memoryview(data), time.monotonic() + START_TIMEOUT_S
        poll = select.poll()
        poll.register(self._master, select.POLLOUT)
        poll.register(self._control, select.POLLIN)
        while view:
            try:
                view = view[os.write(self._master, view) :]
            except BlockingIOError:
                ready = {fd for fd, _ in poll.poll(1000)}
                if self._control.fileno() in ready:
                    raise self._ended() from None
                if time.monotonic() > deadline:
                    raise BoxError("the shell reads no more commands") from None

    def read(self, timeout_s: float) -> bytes:
        try:
            return self._spawn.read_nonblocking(READ_BYTES, timeout_s)
        except TIMEOUT:
            return b""
        except EOF:
            raise self._ended() from None

    def _ended(self) -> ShellEnded:
        """pid 1's report of a shell's end: its status, on a line."""
        text = b""
        while not text.endswith(b"\n"):
            data = self._receive(16)[0]
            text += data
        return ShellEnded(int(text))

    def _wait_for_end(self) -> None:
        deadline = time.monotonic() + END_TIMEOUT_S
        with contextlib.suppress(ShellEnded):
            while time.monotonic() < deadline:
                self.read(0.1)
            raise BoxError("the shell cannot be killed")

    def send_signal(self, number: signal.Signals) -> None:
        targets = descendants(self._shell)
        if number in (signal.SIGINT, signal.SIGQUIT):
            targets.append(self._shell)
        self._kill(targets, number)

    def _kill(self, pids: list[int], number: signal.Signals) -> None:
        """Signal processes of this terminal, never one that has got the number of an ended one meanwhile."""
        ours = namespace(self._init)
        for pid in pids:
            with contextlib.suppress(OSError):
                fd = os.pidfd_open(pid)
                try:
                    if namespace(pid) == ours:
                        signal.pidfd_send_signal(fd, number)
                finally:
                    os.close(fd)

    def make_room(self) -> bool:
        others = [pid for pid in descendants(self._init) if pid != self._shell]
        if len(others) < self.limits.processes // 2:
            return False
        # Stopped before they are killed, or those not yet killed take the places of the dead.
        for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL):
            self._kill([pid for pid in descendants(self._init) if pid != self._shell], number)
        return True

    def cpu_s(self) -> float:
        if self._counter < 0:
            return 0.0
        text = os.pread(self._counter, 256, 0)
        return int(text.split()[1]) / 1e6 if text.startswith(b"usage_usec") else int(text) / 1e9

    @property
    def alive(self) -> bool:
        return not self._closed and self._process.poll() is None

    def read_file(self, path: str, most: int) -> bytes | None:
        if not self.alive:
            raise BoxError("the terminal is gone")
        fd = open_beneath(f"/proc/{self._init}/root", path, terminal_bwrap.WORK)
        if fd is None:
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read(most)

    def close(self) -> None:
        """End everything in the terminal. Idempotent."""
        if not self._closed:
            self._closed = True
            self._stack.close()

    def _end(self) -> None:
        # pid 1 first: its parent ends only after it, and it after all others.
        if self._init_fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_S)
            os.close(self._init_fd)
        self._process.kill()
        self._process.wait()

    def _send(self, data: bytes, ancillary: list[tuple[int, int, array.array]] | None = None) -> None:
        try:
            sent = self._control.sendmsg([data], ancillary or [])
            self._control.sendall(data[sent:])
        except OSError as error:
            raise BoxError(f"the terminal is gone: {self._complaint()}") from error

    def _receive(self, size: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, object]:
        self._control.settimeout(START_TIMEOUT_S)
        try:
            received = self._control.recvmsg(size, socket.CMSG_SPACE(_CREDENTIALS.size))
        except TimeoutError as error:
            raise BoxError(f"the terminal did not answer within {START_TIMEOUT_S:.0f} s") from error
        except OSError as error:
            raise BoxError(f"the terminal is gone ({error.strerror})") from error
        if not received[0]:
            raise BoxError(f"the terminal died: {self._complaint()}")
        return received

    def _complaint(self) -> str:
        """The last line printed, which is that of what went wrong."""
        text = b""
        with contextlib.suppress(OSError):
            while data := os.read(self._master, READ_BYTES):
                text = (text + data)[-READ_BYTES:]
        lines = text.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"
