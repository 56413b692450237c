"""Problems for the tests of the judge."""

import pytest

from cef_env.errors import SandboxUnavailableError
from cef_env.problems import Problem, TestCase
from cef_env.sandbox import Plan, resolve

TIERS = ("cgroups", "rlimits", "docker", "landlock", "landlock_no_fork")
NO_MOUNTS = ("landlock", "landlock_no_fork")
"""Tiers where programs cannot write files, and can see that files of the host exist."""


def tier_or_skip(name: str) -> Plan:
    """The plan of a tier; skips the test where the machine does not have it (never the weakest)."""
    try:
        return resolve(name)
    except SandboxUnavailableError as error:
        if name == "rlimits":
            raise
        pytest.skip(str(error))


def make_problem(*tests: tuple[str, str], **fields: object) -> Problem:
    """A problem from (input, output) pairs; half a CPU second and 128 MiB unless told otherwise."""
    defaults = {"id": "p", "title": "P", "statement": "Solve.", "time_limit_s": 0.5, "memory_limit_mb": 128}
    cases = tuple(TestCase(input_, output) for input_, output in tests)
    return Problem(tests=cases, **{**defaults, **fields})  # type: ignore[arg-type]
