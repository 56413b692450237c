"""Verdicts, outcomes and the one `JudgeResult` that serves reward, shaping and report.

Pure data and the rules of the taxonomy (paper: four outcomes; nested coverage rewards R_k). Does not
run anything: see `cef_env.judge.judge`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from cef_env.errors import UserError
from cef_env.problems.types import Coverage, parse_coverage


class Verdict(StrEnum):
    """What happened to one program on one test."""

    ACCEPTED = "accepted"
    """Ended within the limits with exit status 0 and the checker agreed."""
    WRONG_ANSWER = "wrong_answer"
    """Ended within the limits, but the checker disagreed."""
    RUNTIME_ERROR = "runtime_error"
    """Non-zero exit status or a signal."""
    TIME_LIMIT = "time_limit"
    """Used more CPU time than allowed, or idled past the wall guard."""
    MEMORY_LIMIT = "memory_limit"
    """Asked for more memory than allowed."""
    OUTPUT_LIMIT = "output_limit"
    """Printed more than allowed."""


LIMIT_VERDICTS = frozenset({Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT})


class Outcome(StrEnum):
    """What one answer amounts to over a test suite (paper, outcome taxonomy)."""

    CORRECT = "correct"
    """Every test accepted."""
    OPTIMIZATION_FAILURE = "optimization_failure"
    """The first failing test exceeds time or memory and a smaller test was accepted."""
    CORRECTNESS_FAILURE = "correctness_failure"
    """The first failing test is wrong, crashes or prints too much; or the smallest test already
    exceeds a limit; or the program does not compile."""
    FORMAT_ERROR = "format_error"
    """No program could be extracted from the answer."""


class FormatErrorCause(StrEnum):
    """Why there was no program."""

    NO_CODE = "no_code"
    """The answer is complete but holds no fenced code block."""
    OUT_OF_TOKENS = "out_of_tokens"
    """The answer was cut by the token budget."""
    OUT_OF_TURNS = "out_of_turns"
    """The episode was cut by the turn budget."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """One program on one test."""

    __test__ = False

    length: int
    """Characters of the test's input."""
    verdict: Verdict
    cpu_s: float
    """CPU seconds used."""
    wall_s: float
    """Wall seconds used."""
    memory_mb: float
    """Peak memory in MiB."""
    detail: str = ""
    """One short line for people: last line of stderr, first difference, or which limit."""


def classify(tests: Sequence[TestResult], *, compile_error: bool = False) -> Outcome:
    """Outcome of the test results in ascending length.

    After a first-failure run `tests` ends with the first failing test. After an exhaustive run a
    wrong answer, runtime error or output limit anywhere dominates every exceeded limit.
    """
    if compile_error:
        return Outcome.CORRECTNESS_FAILURE
    failures = [test for test in tests if test.verdict is not Verdict.ACCEPTED]
    if not failures:
        return Outcome.CORRECT
    only_limits = all(test.verdict in LIMIT_VERDICTS for test in failures)
    smallest_accepted = tests[0].verdict is Verdict.ACCEPTED
    return Outcome.OPTIMIZATION_FAILURE if only_limits and smallest_accepted else Outcome.CORRECTNESS_FAILURE


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """Everything known about one answer to one problem."""

    problem_id: str
    outcome: Outcome
    """Over the tests of `coverage`; the paper's outcome when `coverage` is None."""
    tests: tuple[TestResult, ...]
    """Ascending length; ends at the first failure unless `exhaustive`."""
    levels: tuple[int, ...]
    """The problem's coverage levels (`Problem.levels`)."""
    coverage: Coverage = None
    """Which tests were asked for; R_k beyond it is unknown unless a smaller test failed."""
    exhaustive: bool = False
    compile_error: str | None = None
    """The compiler's message when the program does not compile."""
    format_error: FormatErrorCause | None = None
    """Set exactly when `outcome` is FORMAT_ERROR."""
    tier: str = ""
    """Isolation tier of the sandbox that ran the program."""
    speed_factor: float = 1.0
    """What time limits were multiplied by."""

    @classmethod
    def no_program(cls, problem_id: str, levels: tuple[int, ...], cause: FormatErrorCause) -> "JudgeResult":
        """The result of an answer without a program: FORMAT_ERROR, R_k = 0 for every k."""
        return cls(problem_id, Outcome.FORMAT_ERROR, (), levels, format_error=cause)

    def reward(self, k: Coverage = None) -> int:
        """R_k: 1 iff every test with input shorter than 10^k characters is accepted (paper, R_k).

        Raises `UserError` when the problem has no test under 10^k, or when this result stopped at a
        smaller coverage and so cannot know.
        """
        k = parse_coverage(k)
        if k is not None and k < self.levels[0]:
            raise UserError(
                f"problem {self.problem_id!r} has no test under 10^{k} characters, so no R_{k}; "
                f"its smallest coverage is {self.levels[0]}"
            )
        if self.outcome is Outcome.FORMAT_ERROR or self.compile_error is not None:
            return 0
        if any(t.verdict is not Verdict.ACCEPTED and (k is None or t.length < 10**k) for t in self.tests):
            return 0
        # Nothing under 10^k failed. A larger failure proves that all smaller tests were run.
        if all(t.verdict is Verdict.ACCEPTED for t in self.tests) and self._beyond(k):
            raise UserError(
                f"problem {self.problem_id!r} was judged at coverage {self.coverage} only; "
                f"judge it again with coverage={k} to know R_{'inf' if k is None else k}"
            )
        return 1

    def _beyond(self, k: Coverage) -> bool:
        """Whether R_k needs tests larger than those that were judged."""
        if self.coverage is None:
            return False
        wanted = self.levels[-1] if k is None else max(level for level in self.levels if level <= k)
        return wanted > self.coverage

    @property
    def coverage_reached(self) -> int:
        """The largest judged level k with R_k = 1; 0 when there is none."""
        judged = [k for k in self.levels if self.coverage is None or k <= self.coverage]
        return max((k for k in judged if self.reward(k)), default=0)

    @property
    def failed(self) -> TestResult | None:
        """The first failing test, if any."""
        return next((test for test in self.tests if test.verdict is not Verdict.ACCEPTED), None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; `from_json` inverts it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "JudgeResult":
        tests = tuple(TestResult(**{**t, "verdict": Verdict(t["verdict"])}) for t in data["tests"])
        cause = data["format_error"]
        return cls(
            **{
                **data,
                "tests": tests,
                "outcome": Outcome(data["outcome"]),
                "levels": tuple(data["levels"]),
                "format_error": None if cause is None else FormatErrorCause(cause),
            }
        )


__all__ = ["FormatErrorCause", "JudgeResult", "Outcome", "TestResult", "Verdict", "classify"]
