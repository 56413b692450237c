"""What keeps a test inside its box and ends every process of it, by tier.

    Namespaces   a pid namespace per program: the runner is its pid 1
    Domains      nested Landlock domains with signal scope: each reaches only what lies within it
    Container    a container per box: the zygote is its pid 1
    Alone        Landlock without signal scope: a test cannot start processes, so there is one to kill
    Compilers    the same for compilers, which may

Each object is made by the zygote and inherited by its forks. It does not limit memory or time and installs no
seccomp filter: see `confine.py`.
"""

import contextlib
import os
import signal
from typing import Protocol

from . import kernel, landlock, workspace

CPU_COUNTERS = (
    "/sys/fs/cgroup/cpuacct/cpuacct.usage",
    "/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage",
    "/sys/fs/cgroup/cpu.stat",
)
"""Of a container's own control group, where it is mounted in it: version 1, version 2."""


class Isolation(Protocol):
    """One box's isolation; the methods in the order of their use."""

    cpu_fd: int
    """Counts the CPU time of everything in the box; -1 where nothing but the host's control groups does."""

    def enter_box(self) -> None:
        """In the zygote, before it does anything for anybody."""

    def fork_runner(self) -> int:
        """fork() into the process of one program."""

    def enter_runner(self) -> None:
        """In that process, before it starts a test."""

    def workspace(self) -> workspace.Workspace:
        """The folders of its tests."""

    def enter_test(self, writes: bool) -> None:
        """In the process of a test, before it is denied system calls. `writes`: it may write files."""

    def kill(self, pid: int) -> None:
        """In the runner: end every process of the test whose main process is `pid`, reaping nothing."""


class Namespaces:
    """The box is bubblewrap's; every program gets pid and mount namespaces of its own."""

    cpu_fd = -1

    def __init__(self, config: dict) -> None:
        self._config = config

    def enter_box(self) -> None:
        pass

    def fork_runner(self) -> int:
        return kernel.fork_into(kernel.CLONE_NEWPID | kernel.CLONE_NEWNS)

    def enter_runner(self) -> None:
        pass

    def workspace(self) -> workspace.Workspace:
        return workspace.TmpfsWorkspace(self._config)

    def enter_test(self, writes: bool) -> None:
        pass

    def kill(self, pid: int) -> None:
        # Reaches every process of this pid namespace but us; forks in flight see the signal.
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)


class Alone:
    """Files confined by Landlock; for kernels that do not scope signals. The seccomp filter of this mode
    denies fork and signals to others, so killing the main process of a test ends the test."""

    cpu_fd = -1

    def __init__(self, config: dict) -> None:
        self._config = config
        self._zygote = os.getpid()
        self._runner = 0
        self._abi: int = config["landlock"]["abi"]
        self._folder: str = config["work"]

    def enter_box(self) -> None:
        kernel.no_new_privileges()
        kernel.subreaper()
        self._die_with_parent()
        self._reading = self._test_rules(())
        self._writing = self._test_rules((self._folder,))
        self._enter_files()

    def _enter_files(self) -> None:
        files, tcp, scopes = landlock.known(self._abi)
        rules = landlock.Ruleset(self._abi, files, tcp, scopes)
        paths = self._config["landlock"]
        for path in paths["programs"]:
            rules.allow(path, landlock.READ | landlock.EXECUTE)
        for path in paths["listed"]:
            rules.allow(path, landlock.READ_DIR)
        for path in paths["readable"]:
            rules.allow(path, landlock.READ)
        for path in self._config["site"]:
            rules.allow(path, landlock.READ_DIR)
        for path in paths["devices"]:
            rules.allow(path, landlock.READ | landlock.WRITE_FILE | landlock.TRUNCATE)
        rules.allow(self._folder, landlock.READ | landlock.WRITE)
        rules.enter()

    def _test_rules(self, writable: tuple[str, ...]) -> landlock.Ruleset:
        rules = landlock.Ruleset(self._abi, landlock.WRITE, scopes=landlock.SCOPE_SIGNALS)
        for path in (*self._config["landlock"]["devices"], *writable):
            rules.allow(path, landlock.WRITE)
        return rules

    def _die_with_parent(self) -> None:
        """The end of file of the socket says the same, unless a fork of the host keeps the socket open."""
        signal.signal(signal.SIGTERM, lambda number, frame: self._end())
        kernel.death_signal(signal.SIGTERM)

    def _end(self) -> None:
        if self._runner:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._runner, signal.SIGTERM)
            _reap_all()
        os._exit(0)  # the test of a runner gets its own death signal

    def fork_runner(self) -> int:
        self._runner = os.fork()
        return self._runner

    def enter_runner(self) -> None:
        kernel.subreaper()
        self._die_with_parent()
        if os.getppid() != self._zygote:
            os._exit(1)  # it died before that took effect

    def workspace(self) -> workspace.Workspace:
        return workspace.FolderWorkspace(self._config)

    def enter_test(self, writes: bool) -> None:
        kernel.death_signal(signal.SIGKILL)
        (self._writing if writes or self._config["writes"] else self._reading).enter()

    def kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Compilers(Alone):
    """As `Alone`, for boxes that compile: compilers start processes, which stay in the group of the first."""

    def kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


class Domains(Alone):
    """Files and signals confined by Landlock: a domain for the box, in it one for the program, in it one per
    test. kill(-1) then reaches a domain and those within it, atomically, as in a pid namespace."""

    def __init__(self, config: dict) -> None:
        super().__init__(config)
        self._proved_by = 0

    def enter_box(self) -> None:
        self._self = os.pidfd_open(self._zygote)
        super().enter_box()

    def _enter_files(self) -> None:
        host = os.pidfd_open(os.getppid())
        self._prove(host, super()._enter_files)
        os.close(host)

    def enter_runner(self) -> None:
        super().enter_runner()
        # Renaming between folders is denied by every layer that does not allow it.
        own = landlock.Ruleset(self._abi, landlock.REFER, scopes=landlock.SCOPE_SIGNALS)
        own.allow(self._folder, landlock.REFER)
        self._prove(self._self, own.enter)

    def _prove(self, outside: int, enter: object) -> None:
        """Enter a domain, and prove that it cut us off from a live process of the same user, pidfd `outside`,
        which only the domain can have done. Without that proof a kill(-1) could end the whole machine."""
        signal.pidfd_send_signal(outside, 0)
        enter()  # type: ignore[operator]
        for attempt in (lambda: signal.pidfd_send_signal(outside, 0), lambda: os.kill(1, 0)):
            try:
                attempt()
            except PermissionError:
                continue
            raise RuntimeError("this kernel's Landlock does not confine signals")
        self._proved_by = os.getpid()

    def _kill_all(self) -> None:
        if self._proved_by != os.getpid():
            raise RuntimeError("no kill(-1) without proof that it is confined")
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)

    def _end(self) -> None:
        if self._proved_by == os.getpid():
            self._kill_all()
            _reap_all()
        os._exit(0)

    def kill(self, pid: int) -> None:
        self._kill_all()


class Container:
    """The box is a container of its own, and the zygote its first process, which kill(-1) spares."""

    def __init__(self, config: dict) -> None:
        self._config = config
        self.cpu_fd = -1

    def enter_box(self) -> None:
        if os.getpid() != 1:
            raise RuntimeError("the zygote must be the first process of its container")
        for name in set(os.environ) - set(self._config["environment"]):
            del os.environ[name]
        if self._config["packages"]:
            import site

            self._config["site"] = site.getsitepackages()  # the image's
        for path in CPU_COUNTERS:
            with contextlib.suppress(OSError):
                self.cpu_fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                break

    def fork_runner(self) -> int:
        return os.fork()

    def enter_runner(self) -> None:
        if os.getppid() != 1:
            raise RuntimeError("the runner must be a child of the container's first process")
        kernel.subreaper()

    def workspace(self) -> workspace.Workspace:
        return workspace.ContainerWorkspace(self._config)

    def enter_test(self, writes: bool) -> None:
        pass

    def kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)


def _reap_all() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


KINDS: dict[str, type[Namespaces] | type[Alone] | type[Container]] = {
    "namespaces": Namespaces,
    "container": Container,
    "domains": Domains,
    "alone": Alone,
    "compilers": Compilers,
}
