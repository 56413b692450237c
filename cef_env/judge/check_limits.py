"""Judges the labelled programs of a source: what was expected against what came, and limits that hold here.

Two questions about a problem that carries programs: does this judge agree with their labels, and is the time
limit far from both sides (ICPC rule: slowest accepted program x 2 <= limit, and limit x 1.5 <= fastest one
that must time out)? Does not change limits and draws no tables.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cef_env.errors import JudgeError, UserError
from cef_env.judge.judge import Judge
from cef_env.judge.types import JudgeResult, Outcome, Verdict
from cef_env.problems.types import Problem, Submission

ACCEPTED_FACTOR = 2.0
"""A limit should be at least this many times the slowest accepted program."""
TIMEOUT_FACTOR = 1.5
"""A program that must time out should need at least this many times the limit."""
MUST_TIME_OUT = frozenset({Verdict.TIME_LIMIT})


@dataclass(frozen=True, slots=True)
class Checked:
    """One labelled program."""

    problem_id: str
    position: int
    """In `Problem.submissions`, from 0."""
    kind: str
    language: str
    expected: tuple[str, ...]
    got: str
    """An outcome, or `judge failed`."""
    agrees: bool | None
    """None when the source expects nothing, or the judge failed."""
    slowest_s: float = 0.0
    """CPU seconds of the slowest test."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """How a time limit stands between the programs of one problem."""

    problem_id: str
    limit_s: float
    slowest_accepted_s: float | None
    """None without an accepted program that is labelled so."""
    times_out: bool | None
    """Whether every program that must time out still does at 1.5 x the limit; None without one."""

    @property
    def trusted(self) -> bool | None:
        """None when no program says anything."""
        if self.slowest_accepted_s is None and self.times_out is None:
            return None
        fast = self.slowest_accepted_s is None or self.slowest_accepted_s * ACCEPTED_FACTOR <= self.limit_s
        return fast and self.times_out is not False


@dataclass
class Check:
    """The check of a source, problem by problem."""

    programs: list[Checked] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    without_programs: int = 0
    """Problems that carry none, or that cannot be judged."""

    @property
    def confusion(self) -> Counter[tuple[str, str]]:
        """(expected, got) -> programs."""
        return Counter((" or ".join(c.expected) or "unknown", c.got) for c in self.programs)

    @property
    def disagreements(self) -> list[Checked]:
        return [checked for checked in self.programs if checked.agrees is False]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "confusion": [[*pair, count] for pair, count in sorted(self.confusion.items())],
            "programs": [asdict(checked) for checked in self.programs],
            "limits": [{**asdict(limit), "trusted": limit.trusted} for limit in self.limits],
            "problems_without_programs": self.without_programs,
        }


def check(
    problems: Iterable[Problem],
    judge: Judge,
    total: int,
    progress: Callable[[int, int, str], None] | None = None,
) -> Check:
    """Judge the labelled programs of every problem; `progress` counts problems."""
    found = Check()
    with ThreadPoolExecutor(judge.workers, thread_name_prefix="cef-check") as threads:
        for done, problem in enumerate(problems, 1):
            if problem.submissions and not problem.interactive:
                work = threads.map(lambda s, p=problem: _check_program(p, s, judge), problem.submissions)
                results = [replace(one, position=position) for position, one in enumerate(work)]
                found.programs += results
                found.limits.append(_limit(problem, results, judge, threads))
            else:
                found.without_programs += 1
            if progress is not None:
                progress(done, total, f"{len(found.disagreements)} disagree")
    return found


def _check_program(problem: Problem, submission: Submission, judge: Judge) -> Checked:
    about = (problem.id, 0, submission.kind, submission.language, submission.expected)
    try:
        result = judge.run(
            problem,
            submission.program,
            exhaustive=_needs_every_test(submission),
            language=submission.language,
        )
    except (JudgeError, UserError) as error:  # such as no C++ compiler: the others can still be judged
        return Checked(*about, "judge failed", None, detail=str(error))
    slowest = max((test.cpu_s for test in result.tests), default=0.0)
    failed = result.failed
    detail = result.compile_error or (f"{failed.verdict}: {failed.detail}" if failed else "")
    return Checked(*about, str(result.outcome), _agrees(submission, result), slowest, detail)


def _needs_every_test(submission: Submission) -> bool:
    """Whether the first failure may be one that is permitted while another one is required."""
    failing = set(submission.permitted) - {Verdict.ACCEPTED}
    return bool(submission.required) and not failing <= set(submission.required)


def _agrees(submission: Submission, result: JudgeResult) -> bool | None:
    """By the verdicts that the source names, else by the outcome."""
    if submission.permitted or submission.required:
        if result.compile_error is not None:
            return False
        verdicts = {test.verdict for test in result.tests}
        permitted = set(submission.permitted) or set(Verdict)
        return verdicts <= permitted and (
            not submission.required or bool(verdicts & set(submission.required))
        )
    return result.outcome in submission.expected if submission.expected else None


def _limit(problem: Problem, results: list[Checked], judge: Judge, threads: ThreadPoolExecutor) -> Limit:
    accepted = [
        one.slowest_s for one in results if one.expected == ("correct",) and one.got == Outcome.CORRECT
    ]
    longer = replace(problem, time_limit_s=problem.time_limit_s * TIMEOUT_FACTOR)
    late = [(s, one) for s, one in zip(problem.submissions, results) if _must_time_out(s)]
    still = list(threads.map(lambda pair: pair[1].agrees and _times_out(longer, pair[0], judge), late))
    return Limit(problem.id, problem.time_limit_s, max(accepted, default=None), all(still) if still else None)


def _must_time_out(submission: Submission) -> bool:
    if submission.required:
        return set(submission.required) == MUST_TIME_OUT
    return submission.expected == (Outcome.OPTIMIZATION_FAILURE,)


def _times_out(problem: Problem, submission: Submission, judge: Judge) -> bool:
    """A judge fault counts as no: the limit cannot be trusted."""
    try:
        result = judge.run(
            problem,
            submission.program,
            exhaustive=_needs_every_test(submission),
            language=submission.language,
        )
    except (JudgeError, UserError):
        return False
    return any(test.verdict is Verdict.TIME_LIMIT for test in result.tests)
