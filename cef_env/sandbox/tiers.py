"""Isolation tiers: what this machine allows, found by starting a box, never by guessing.

Chooses how boxes are started. There is no tier without isolation: where none works, this refuses.
"""

import functools
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cef_env.errors import InstrumentError, SandboxUnavailableError, UserError
from cef_env.sandbox.bwrap import find_bwrap
from cef_env.sandbox.cgroups import CgroupParent, find_parent
from cef_env.sandbox.docker import require_image
from cef_env.sandbox.inside.landlock import SIGNAL_ABI, kernel_abi
from cef_env.sandbox.landlock import processes_of

ENVIRONMENT_VARIABLE = "CEF_SANDBOX"


class Tier(StrEnum):
    """How strongly a judged program is confined, the strongest first. All deny system calls by seccomp."""

    CGROUPS = "cgroups"
    """bubblewrap and namespaces; control groups limit memory and processes exactly, and count the CPU time
    of all children."""
    RLIMITS = "rlimits"
    """bubblewrap and namespaces, no control groups. Memory is limited by RLIMIT_DATA and judged by the peak
    resident size of each single process; the CPU time of children counts when they end, and wall time bounds
    them before."""
    DOCKER = "docker"
    """A container of a Docker engine per box, of the image CEF_DOCKER_IMAGE (python:3.12-slim). The image's
    Python, packages and compilers are those of programs, and they see its files, /proc and /sys. Memory as in
    `rlimits`, and the container has half of the machine's as an outer bound; CPU time counts all children
    where the container has its own counter mounted, else as in `rlimits`. The bound on the files of a test
    holds for each of its folder, /tmp and /dev/shm."""
    LANDLOCK = "landlock"
    """No namespaces: Landlock (Linux 6.12 or newer) confines which files can be opened, and signals to the
    test itself. Limits as in `rlimits`. What it does not do:

    - programs cannot make or write files (no quota is possible without a mount): no temporary files, no
      semaphores, no `multiprocessing` pools. The input files of a test are there. Where output files are
      collected, and for compilers, a folder is writable, limited by the size of each single file only;
    - it does not hide that a file or a process exists, its owner, size, times, attributes and links, nor the
      name of the machine; lists of processes and of folders are hidden, but for those beside the standard
      library;
    - where only root can read the interpreter (it lies in /root), tests keep one capability to read it: for
      what the rules allow to open, file modes do not matter;
    - for an ordinary user, tests run as that user, and the limit on processes counts those of all boxes
      together: while a fork bomb runs in one, programs in others may fail to start threads or processes."""
    LANDLOCK_NO_FORK = "landlock_no_fork"
    """As `landlock`, for kernels from 5.13 on that do not confine signals: programs cannot start processes
    (threads they can), nor signal any but themselves. Compilers can: they are trusted to stay in the group of
    processes that a limit ends."""


@dataclass(frozen=True)
class Plan:
    """How to start boxes of one tier."""

    tier: Tier
    user_namespace: bool
    """Whether capabilities come from a user namespace (ordinary user) or are real (root)."""
    cgroups: CgroupParent | None = None
    landlock_abi: int = 0
    """Version of Landlock to speak, in the tiers that use it."""
    image: str = ""
    """Of the containers, in the tier `docker`."""

    @property
    def own_user(self) -> bool:
        """Whether the tests of a box get a user of their own; else they keep ours."""
        return self.tier is Tier.DOCKER or (os.geteuid() == 0 and not self.user_namespace)

    def processes_of_ours(self) -> int:
        """How many processes there are that a limit on those of the tests' user would count too."""
        return processes_of(os.geteuid()) if self.landlock_abi and not self.own_user else 0


def resolve(sandbox: str = "auto") -> Plan:
    """The plan for `sandbox`: `auto` (the strongest tier that works) or the name of a tier.

    The environment variable CEF_SANDBOX takes the place of `auto`. Raises `UserError` for an unknown name
    and `SandboxUnavailableError` when the tier, or every tier, is impossible here.
    """
    name = sandbox
    if name == "auto":
        name = os.environ.get(ENVIRONMENT_VARIABLE, "auto")
    if name == "auto":
        wanted = list(Tier)
    elif name in list(Tier):
        wanted = [Tier(name)]
    else:
        raise UserError(f"sandbox={name!r}: use auto, {', '.join(Tier)}")
    return _resolve(tuple(wanted), os.geteuid())


def survey() -> list[tuple[Tier, str | None]]:
    """Every tier, the strongest first, and why it is impossible here (one line), or None where it works."""
    found = [(tier, _find(tier, os.geteuid())) for tier in Tier]
    return [(tier, None if isinstance(result, Plan) else result) for tier, result in found]


@functools.cache
def _resolve(wanted: tuple[Tier, ...], euid: int) -> Plan:
    reasons = []
    for tier in wanted:
        result = _find(tier, euid, forced=len(wanted) == 1)
        if isinstance(result, Plan):
            return result
        reasons.append(f"{tier}: {result}")
    what = "no isolation possible" if len(wanted) > 1 else "this isolation is not possible here"
    raise SandboxUnavailableError(f"{what}: {'; '.join(reasons)}")


def _find(tier: Tier, euid: int, forced: bool = False) -> Plan | str:
    """The plan of a tier that was seen to work, or the reason why there is none and what would help.

    `forced`: nothing else was asked for; then an image is pulled.
    """
    if tier is Tier.DOCKER:
        return _find_docker(forced)
    if tier in (Tier.CGROUPS, Tier.RLIMITS):
        return _find_bubblewrap(tier, euid)
    return _find_landlock(tier)


def _find_bubblewrap(tier: Tier, euid: int) -> Plan | str:
    parent = None
    try:
        find_bwrap()
        if tier is Tier.CGROUPS:
            parent = find_parent()
            if parent is None:
                return "no writable control group (run as root, or have one delegated)"
    except SandboxUnavailableError as error:
        return str(error)
    reasons = []
    for user_namespace in (False, True) if euid == 0 else (True,):
        plan = Plan(tier, user_namespace, parent)
        failure = _try(plan)
        if failure is None:
            return plan
        reasons.append(failure)
    return f"{'; '.join(dict.fromkeys(reasons))}. {_remedy()}"


def _find_docker(forced: bool) -> Plan | str:
    try:
        plan = Plan(Tier.DOCKER, user_namespace=False, image=require_image(pull=forced))
    except SandboxUnavailableError as error:
        return str(error)
    return _try(plan) or plan


def _find_landlock(tier: Tier) -> Plan | str:
    abi = kernel_abi()
    if abi == 0:
        return (
            "no Landlock: use Linux 5.13 or newer with landlock among its security modules (lsm=), "
            "or Docker, or allow user namespaces"
        )
    if tier is Tier.LANDLOCK and abi < SIGNAL_ABI:
        return f"Landlock here (version {abi}) does not confine signals: use Linux 6.12 or newer"
    plan = Plan(tier, user_namespace=False, landlock_abi=abi)
    return _try(plan) or plan


def _remedy() -> str:
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        return "AppArmor refuses user namespaces: install the system's package bubblewrap, or run as root"
    return (
        "Run as root, or allow user namespaces "
        "(in Docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined)"
    )


def _try(plan: Plan) -> str | None:
    """Run one program in a box of this plan; why it failed, or None."""
    from cef_env.sandbox.box import Box  # a cycle at import time only
    from cef_env.sandbox.types import Limits

    program = "import colorsys, os, subprocess\nos.write(1, input().encode())"
    try:
        with Box(plan) as box:
            error = box.load(program, Limits(cpu_s=10.0, memory_bytes=256 << 20))
            execution = None if error else box.run(b"works")
    except InstrumentError as problem:
        return str(problem)
    if execution is None or execution.stdout != b"works":
        return f"a trial program failed: {error or execution.stderr.decode(errors='replace')[-200:]}"  # type: ignore[union-attr]
    return None
