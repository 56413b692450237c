"""What the process of one test gives up before it runs a line of the program.

Limits, user, capabilities, what the tier adds, system calls, control group, in this order. Namespaces and
files are the runner's (see `runner.py`, `isolation.py`, `workspace.py`).
"""

import os
import resource
import signal
import struct

from . import kernel
from .isolation import Isolation

MAX_FDS = 256
ADDRESS_SPACE_SLACK = 4 << 30
"""What RLIMIT_AS allows above RLIMIT_DATA: shared libraries, file mappings, guard pages."""


class Confinement:
    """How every test of one box is confined.

    Args:
        config: what the host sent: `seccomp` (hex, `own_pid` stands for the test's pid), `uid` (None:
            keep ours), `keep` (a capability or None), `work` (where tests start).
        isolation: what the tier adds.
        join_fds: `cgroup.procs` of each hierarchy; empty where rlimits must serve.
    """

    def __init__(self, config: dict, isolation: Isolation, join_fds: list[int]) -> None:
        self.uid: int | None = config["uid"]
        self.keep: int | None = config["keep"]
        self.work: str = config["work"]
        self.isolation = isolation
        self.join_fds = join_fds
        self.filter = bytes.fromhex(config["seccomp"])
        self.own_pid = struct.pack("=I", config["own_pid"])
        # Laid out once where it can be: in the child every page that is touched first is a page copied.
        self.seccomp = None if self.own_pid in self.filter else kernel.SeccompFilter(self.filter)

    def enter(self, stdio: tuple[int, int, int], limits: dict, writes: bool) -> None:
        """In the child: become a nobody with limits. The cgroup comes last, so set-up is not charged."""
        seccomp = self.seccomp or kernel.SeccompFilter(
            self.filter.replace(self.own_pid, struct.pack("=I", os.getpid()))
        )
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        os.setsid()
        os.chdir(self.work)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):  # a script's background ignores some
            signal.signal(number, signal.SIG_DFL)
        cpu = int(limits["cpu"])
        for kind, soft, hard in (
            (resource.RLIMIT_CPU, cpu + 2, cpu + 3),
            (resource.RLIMIT_FSIZE, limits["output"] + 1, limits["output"] + 1),
            (resource.RLIMIT_NOFILE, MAX_FDS, MAX_FDS),
            (resource.RLIMIT_CORE, 0, 0),
            (resource.RLIMIT_MEMLOCK, 0, 0),
            (resource.RLIMIT_MSGQUEUE, 0, 0),
            (resource.RLIMIT_SIGPENDING, 256, 256),
        ):
            kernel.limit(kind, soft, hard)
        if not self.join_fds:
            kernel.limit(resource.RLIMIT_NPROC, limits["processes"])
            kernel.limit(resource.RLIMIT_DATA, limits["data"])
            kernel.limit(resource.RLIMIT_AS, limits["data"] + ADDRESS_SPACE_SLACK)
        if self.uid is not None:
            kernel.become(self.uid, self.keep)
        kernel.drop_capabilities(self.keep)
        kernel.no_new_privileges()
        self.isolation.enter_test(writes)
        seccomp.install()
        for fd in self.join_fds:
            os.write(fd, b"0")
