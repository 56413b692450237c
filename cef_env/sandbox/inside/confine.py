"""What the process of one test gives up before it runs a line of the program.

Limits, user, capabilities, system calls, control group, in this order. Namespaces and files are the
runner's (see `runner.py`, `workspace.py`).
"""

import os
import resource
import signal

from . import kernel, protocol

MAX_FDS = 256
ADDRESS_SPACE_SLACK = 4 << 30
"""What RLIMIT_AS allows above RLIMIT_DATA: shared libraries, file mappings, guard pages."""


class Confinement:
    """How every test of one box is confined.

    Args:
        config: what the host sent: `seccomp` (hex), `uid` (None: keep ours), `processes`, `cores`.
        join_fds: `cgroup.procs` of each hierarchy; empty where rlimits must serve.
    """

    def __init__(self, config: dict, join_fds: list[int]) -> None:
        self.uid: int | None = config["uid"]
        self.processes: int = config["processes"]
        self.join_fds = join_fds
        self.seccomp = kernel.SeccompFilter(bytes.fromhex(config["seccomp"]))

    def enter(self, stdio: tuple[int, int, int], limits: dict) -> None:
        """In the child: become a nobody with limits. The cgroup comes last, so set-up is not charged."""
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        os.setsid()
        os.chdir(protocol.WORK)
        signal.signal(signal.SIGINT, signal.default_int_handler)
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
            kernel.limit(resource.RLIMIT_NPROC, self.processes)
            kernel.limit(resource.RLIMIT_DATA, limits["data"])
            kernel.limit(resource.RLIMIT_AS, limits["data"] + ADDRESS_SPACE_SLACK)
        if self.uid is not None:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)
        kernel.drop_capabilities()
        kernel.no_new_privileges()
        self.seccomp.install()
        for fd in self.join_fds:
            os.write(fd, b"0")
