"""Starting the process of a box: a zygote behind a socket, however the tier isolates it.

Does not speak the protocol of the zygote: see `box.py`.
"""

import contextlib
import os
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from cef_env.sandbox import bwrap
from cef_env.sandbox.tiers import Plan
from cef_env.sandbox.types import Contents


class Zygote(Protocol):
    """A started zygote. `conn` is the socket to it; its first message is still to come."""

    conn: socket.socket

    @property
    def alive(self) -> bool:
        """Whether it still runs; a box that died while idle is no use."""

    def complaint(self) -> str:
        """The last line that it, or what isolates it, printed."""

    def close(self) -> None:
        """End it and everything in it."""


class BwrapZygote:
    """A zygote inside bubblewrap."""

    def __init__(self, plan: Plan, contents: Contents) -> None:
        self._stderr = os.memfd_create("box-stderr", os.MFD_CLOEXEC)
        self.conn, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            command = bwrap.box_command(str(theirs.fileno()), contents, user_namespace=plan.user_namespace)
            # die-with-parent means the *thread* that starts it: use one that lives as long as we do.
            self.process = _spawner().submit(self._spawn, command, theirs.fileno()).result()
        except BaseException:
            self.conn.close()
            os.close(self._stderr)
            raise
        finally:
            theirs.close()

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

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def complaint(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.5)  # its message comes before its end
        lines = os.pread(self._stderr, 1 << 16, 0).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def close(self) -> None:
        # Killing bubblewrap kills the pid namespace; an orderly end would only be slower.
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        drain(self.conn)
        os.close(self._stderr)


def drain(conn: socket.socket) -> None:
    """Close a socket after its end of file: that comes when the last process of the box let go of it."""
    with contextlib.suppress(OSError):
        conn.settimeout(2.0)
        while conn.recv(1 << 16):
            pass
    conn.close()


def launch(plan: Plan, contents: Contents) -> Zygote:
    """Start the zygote of one box of `plan`."""
    return BwrapZygote(plan, contents)


_spawn_lock = threading.Lock()
_spawn_pool: tuple[int, ThreadPoolExecutor] | None = None


def _spawner() -> ThreadPoolExecutor:
    """The one thread of this process that starts boxes; a forked child gets its own."""
    global _spawn_pool
    with _spawn_lock:
        if _spawn_pool is None or _spawn_pool[0] != os.getpid():
            _spawn_pool = (os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="cef-box-spawner"))
        return _spawn_pool[1]
