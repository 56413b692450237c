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

ENVIRONMENT_VARIABLE = "CEF_SANDBOX"


class Tier(StrEnum):
    """How strongly a judged program is confined. All tiers use bubblewrap, namespaces and seccomp."""

    CGROUPS = "cgroups"
    """Control groups limit memory and processes exactly, and count the CPU time of all children."""
    RLIMITS = "rlimits"
    """No control groups. Memory is limited by RLIMIT_DATA and judged by the peak resident size of each
    single process; the CPU time of children counts when they end, and wall time bounds them before."""


@dataclass(frozen=True)
class Plan:
    """How to start boxes of one tier."""

    tier: Tier
    user_namespace: bool
    """Whether capabilities come from a user namespace (ordinary user) or are real (root)."""
    cgroups: CgroupParent | None


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


@functools.cache
def _resolve(wanted: tuple[Tier, ...], euid: int) -> Plan:
    find_bwrap()
    reasons = []
    parent = find_parent() if Tier.CGROUPS in wanted else None
    for tier in wanted:
        if tier is Tier.CGROUPS and parent is None:
            reasons.append("cgroups: no writable control group (run as root, or have one delegated)")
            continue
        for user_namespace in (False, True) if euid == 0 else (True,):
            plan = Plan(tier, user_namespace, parent if tier is Tier.CGROUPS else None)
            failure = _try(plan)
            if failure is None:
                return plan
            reasons.append(f"{tier}: {failure}")
    raise SandboxUnavailableError(f"no isolation possible: {'; '.join(dict.fromkeys(reasons))}. {_remedy()}")


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
