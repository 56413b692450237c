"""What one labelled program is: text, problem, and the verdicts that are right for it.

Does not hold programs (see the modules beside this one) and does not run them.
"""

from dataclasses import dataclass

from cef_env.judge.types import JudgeResult, Verdict
from cef_env.problems.types import Problem, TestCase

COMPILE_ERROR = "compile_error"
"""Takes the place of a verdict for a program that does not compile."""

ACCEPTED = frozenset({Verdict.ACCEPTED.value})
WRONG_ANSWER = frozenset({Verdict.WRONG_ANSWER.value})
RUNTIME_ERROR = frozenset({Verdict.RUNTIME_ERROR.value})
TIME_LIMIT = frozenset({Verdict.TIME_LIMIT.value})
MEMORY_LIMIT = frozenset({Verdict.MEMORY_LIMIT.value})
OUTPUT_LIMIT = frozenset({Verdict.OUTPUT_LIMIT.value})
NO_COMPILE = frozenset({COMPILE_ERROR})


@dataclass(frozen=True, slots=True)
class Labelled:
    """A program and what is right for it."""

    name: str
    program: str
    problem: Problem
    verdicts: frozenset[str]
    """Right verdicts of the first failing test (or `accepted`, or `compile_error`); more than one only where
    the kernel or the interpreter decides which of two limits is met first."""
    language: str = "python"
    note: str = ""
    """Why it is here; where `weaker` is set, why tiers differ."""
    weaker: frozenset[str] = frozenset()
    """Verdicts that are right too where no control group counts memory and CPU of all processes."""
    passed: int | None = None
    """How many tests are accepted before the first failure, where that is the point of the program."""

    @property
    def label(self) -> str:
        """The verdicts as one word for tables."""
        return "/".join(sorted(self.verdicts))

    def allowed(self, tier: str) -> frozenset[str]:
        """The right verdicts on an isolation tier."""
        return self.verdicts if tier == "cgroups" else self.verdicts | self.weaker

    def agrees(self, result: JudgeResult) -> bool:
        """Whether a result is one of the right ones."""
        accepted = sum(test.verdict is Verdict.ACCEPTED for test in result.tests)
        return verdict_of(result) in self.allowed(result.tier) and self.passed in (None, accepted)


def verdict_of(result: JudgeResult) -> str:
    """`compile_error`, the verdict of the first failing test, or `accepted`."""
    if result.compile_error is not None:
        return COMPILE_ERROR
    return (result.failed.verdict if result.failed else Verdict.ACCEPTED).value


def small_problem(*tests: tuple[str, str], time_s: float = 0.5, memory_mb: int = 128) -> Problem:
    """A problem of (input, output) pairs with tight limits, so that a round is quick."""
    cases = tuple(TestCase(input_, output) for input_, output in tests)
    return Problem("labelled", "Labelled", "", cases, time_limit_s=time_s, memory_limit_mb=memory_mb)


SUM = small_problem(("3\n1 2 3\n", "6\n"))
"""Read n, then n numbers; print their sum."""
SUM_3 = small_problem(("1\n5\n", "5\n"), ("3\n1 2 3\n", "6\n"), ("5\n10 20 30 40 50\n", "150\n"))
"""The same with three tests, for what must show on a later one."""
