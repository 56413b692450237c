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
from pathlib import Path
from typing import Any, Protocol

from cef_env.sandbox import bwrap
from cef_env.sandbox.docker import DockerZygote
from cef_env.sandbox.inside import protocol
from cef_env.sandbox.landlock import PrivateFolder, box_rules, kept_capability
from cef_env.sandbox.seccomp import Mode
from cef_env.sandbox.tiers import Plan, Tier
from cef_env.sandbox.types import MAX_PROCESSES, Contents

INSIDE = str(Path(__file__).with_name("inside"))
END_TIMEOUT_S = 5.0


class Zygote(Protocol):
    """A started zygote. `conn` is the socket to it; its first message is still to come."""

    conn: socket.socket
    config: dict[str, Any]
    """The part of the box's configuration that depends on the way of isolation: `isolation` (see
    `inside/isolation.py`), `work` (where tests start), `site` (folders of packages), `keep`, `landlock`."""
    seccomp: Mode
    """How much its tests' filter must deny."""

    @property
    def alive(self) -> bool:
        """Whether it still runs; a box that died while idle is no use."""

    def complaint(self) -> str:
        """The last line that it, or what isolates it, printed."""

    def close(self) -> None:
        """End it and everything in it."""


class _ProcessZygote:
    """A zygote that is a child of ours, or of a child."""

    def __init__(self) -> None:
        self._stderr = os.memfd_create("box-stderr", os.MFD_CLOEXEC)
        self.conn, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def _start(self, command: list[str], environment: dict[str, str]) -> None:
        """Run `command` with the number of its socket as the last argument."""
        try:
            # Its end follows that of the *thread* that starts it: use one that lives as long as we do.
            started = spawner().submit(self._spawn, [*command, str(self._theirs.fileno())], environment)
            self.process = started.result()
        except BaseException:
            self.conn.close()
            os.close(self._stderr)
            raise
        finally:
            self._theirs.close()

    def _spawn(self, command: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        # No preexec_fn: the parent may be a trainer with many threads, and this way Popen uses vfork.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            pass_fds=(self._theirs.fileno(),),
            env=environment,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for us to handle, not for the box to die of
        )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def complaint(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.5)  # its message comes before its end
        lines = os.pread(self._stderr, 1 << 16, 0).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def _close(self) -> None:
        drain(self.conn)
        os.close(self._stderr)


class BwrapZygote(_ProcessZygote):
    """A zygote inside bubblewrap."""

    seccomp = Mode.NAMESPACES

    def __init__(self, plan: Plan, contents: Contents) -> None:
        command = bwrap.box_command(contents, user_namespace=plan.user_namespace)
        super().__init__()
        site = [bwrap.SITE] if contents.packages else []
        self.config = {"isolation": "namespaces", "work": protocol.WORK, "site": site, "keep": None}
        self._start(command, {})

    def close(self) -> None:
        # Killing bubblewrap kills the pid namespace; an orderly end would only be slower.
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._close()


class DirectZygote(_ProcessZygote):
    """A zygote that confines itself and its tests by Landlock: an ordinary child process.

    Its tests start in an empty folder of the box's own, which only compilers, and tests whose files are
    collected, may write to.
    """

    def __init__(self, plan: Plan, contents: Contents) -> None:
        kind = "domains"
        if plan.tier is Tier.LANDLOCK_NO_FORK:
            kind = "compilers" if contents.toolchain else "alone"
        self.seccomp = Mode.ALONE if kind == "alone" else Mode.LANDLOCK
        self._folder = PrivateFolder(contents.packages)
        try:
            rules = box_rules(plan.landlock_abi, contents, INSIDE)
            self.config = {
                "isolation": kind,
                "work": self._folder.work,
                "site": [self._folder.site] if contents.packages else [],
                "keep": kept_capability() if plan.own_user else None,
                "landlock": rules,
                "writes": contents.toolchain,
            }
            environment = bwrap.environment(contents) | {"HOME": self._folder.work}
            if contents.toolchain:
                environment["TMPDIR"] = self._folder.work
            super().__init__()
            self._start(bwrap.zygote_command(INSIDE), environment)
        except BaseException:
            self._folder.remove()
            raise

    def close(self) -> None:
        # Its handler ends and reaps everything in the box, which it alone can do at one stroke.
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._close()
        self._folder.remove()


def drain(conn: socket.socket) -> None:
    """Close a socket after its end of file: that comes when the last process of the box let go of it."""
    with contextlib.suppress(OSError):
        conn.settimeout(2.0)
        while conn.recv(1 << 16):
            pass
    conn.close()


def launch(plan: Plan, contents: Contents) -> Zygote:
    """Start the zygote of one box of `plan`."""
    if plan.tier in (Tier.LANDLOCK, Tier.LANDLOCK_NO_FORK):
        return DirectZygote(plan, contents)
    if plan.tier is Tier.DOCKER:
        return DockerZygote(plan.image, INSIDE, contents, MAX_PROCESSES)
    return BwrapZygote(plan, contents)


_spawn_lock = threading.Lock()
_spawn_pool: tuple[int, ThreadPoolExecutor] | None = None


def spawner() -> ThreadPoolExecutor:
    """The one thread of this process that starts boxes; a forked child gets its own."""
    global _spawn_pool
    with _spawn_lock:
        if _spawn_pool is None or _spawn_pool[0] != os.getpid():
            _spawn_pool = (os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="cef-box-spawner"))
        return _spawn_pool[1]
