"""One program on the tests of one problem, in ascending length, up to the first failure.

Does not load programs, share boxes or remember results: see `judge.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cef_env.errors import CheckerError, JudgeError, UserError
from cef_env.judge.checkers import get_checker
from cef_env.judge.custom_checker import Check
from cef_env.judge.languages import Language
from cef_env.judge.types import TestResult, Verdict
from cef_env.judge.verdicts import decide
from cef_env.problems.types import Coverage, Problem, TestCase
from cef_env.sandbox.box import Box
from cef_env.sandbox.types import OUTPUT_BYTES, Execution, Limits

Watch = Callable[[TestCase, Execution, TestResult], None]
"""Told of each test of `Judge.run`: the only way to see what a program printed, which no result keeps."""


@dataclass(frozen=True)
class Job:
    """What is asked of a judge."""

    problem: Problem
    program: str
    coverage: Coverage
    exhaustive: bool
    language: Language

    def limits(self, speed_factor: float) -> Limits:
        """The limits of one test on a machine of this speed."""
        cpu_s = self.problem.time_limit_s * speed_factor
        # Twice the longest right output, in the most bytes that its characters can take.
        output_bytes = max(OUTPUT_BYTES, 8 * self.problem.longest_output)
        return Limits(cpu_s, self.problem.memory_limit_mb << 20, output_bytes)


def refuse_mistakes(job: Job) -> None:
    """`UserError` for what cannot be judged, before anything runs."""
    problem, program = job.problem, job.program
    if not isinstance(problem, Problem):
        raise UserError(f"problem must be a Problem, not {type(problem).__name__}")
    if not isinstance(program, str):
        raise UserError(f"program must be source text (str), not {type(program).__name__}")
    if problem.interactive:
        raise UserError(f"problem {problem.id!r} is interactive, which the judge cannot run; leave it out")
    if problem.function is not None and job.language is not Language.PYTHON:
        raise UserError(
            f"problem {problem.id!r} asks for a function, so language={job.language} is not possible"
        )
    if not problem.coverage(job.coverage):
        raise UserError(
            f"problem {problem.id!r} has no test under 10^{job.coverage} characters; "
            f"its smallest coverage is {problem.levels[0]}"
        )
    if problem.checker_program is None:
        get_checker(problem.checker)


def run_tests(box: Box, job: Job, check: Check, watch: Watch | None) -> list[TestResult]:
    """The loaded program on the tests of a coverage, up to the first failure unless `exhaustive`."""
    problem, limits = job.problem, box.limits
    assert limits is not None
    results: list[TestResult] = []
    for test in problem.coverage(job.coverage):
        stdin = test.input.encode("utf-8", "surrogateescape")
        expected = test.output.encode("utf-8", "surrogateescape")
        execution = box.run(stdin)
        if execution.killed_from_outside:
            execution = box.run(stdin)
        try:
            result = decide(execution, limits, expected, test.length, partial(check, stdin))
        except CheckerError as error:
            raise CheckerError(f"test of length {test.length}: {error}") from error
        except JudgeError:
            raise
        except Exception as error:  # a checker is code of its own; its failure is no verdict
            raise JudgeError(f"checker {problem.checker!r} failed on {problem.id!r}: {error!r}") from error
        results.append(result)
        if watch is not None:
            watch(test, execution, result)
        if result.verdict is not Verdict.ACCEPTED and not job.exhaustive:
            break
    return results
