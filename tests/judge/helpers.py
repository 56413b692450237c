"""Problems for the tests of the judge."""

from cef_env.problems import Problem, TestCase

TIERS = ("cgroups", "rlimits")


def make_problem(*tests: tuple[str, str], **fields: object) -> Problem:
    """A problem from (input, output) pairs; half a CPU second and 128 MiB unless told otherwise."""
    defaults = {"id": "p", "title": "P", "statement": "Solve.", "time_limit_s": 0.5, "memory_limit_mb": 128}
    cases = tuple(TestCase(input_, output) for input_, output in tests)
    return Problem(tests=cases, **{**defaults, **fields})  # type: ignore[arg-type]
