"""One loaded program on the tests of one problem, in ascending length.

Does not load programs, share boxes or remember results: see `judge.py`.
"""

from functools import partial

from cef_env.errors import CheckerError, JudgeError, UserError
from cef_env.judge.checkers import get_checker
from cef_env.judge.custom_checker import Check
from cef_env.judge.languages import Language
from cef_env.judge.types import TestResult, Verdict
from cef_env.judge.verdicts import decide
from cef_env.problems.types import Coverage, Problem
from cef_env.sandbox.box import Box
from cef_env.sandbox.types import Limits


def limits_of(problem: Problem) -> Limits:
    """The limits of one test of this problem."""
    return Limits(cpu_s=problem.time_limit_s, memory_bytes=problem.memory_limit_mb << 20)


def refuse_mistakes(problem: Problem, program: str, language: Language) -> None:
    """`UserError` for what cannot be judged, before anything runs."""
    if not isinstance(problem, Problem):
        raise UserError(f"problem must be a Problem, not {type(problem).__name__}")
    if not isinstance(program, str):
        raise UserError(f"program must be source text (str), not {type(program).__name__}")
    if problem.interactive:
        raise UserError(f"problem {problem.id!r} is interactive, which the judge cannot run; leave it out")
    if problem.function is not None and language is not Language.PYTHON:
        raise UserError(f"problem {problem.id!r} asks for a function, so language={language} is not possible")
    if problem.checker_program is None:
        get_checker(problem.checker)


def run_tests(
    box: Box, problem: Problem, coverage: Coverage, exhaustive: bool, check: Check
) -> list[TestResult]:
    """The loaded program on the tests of a coverage, up to the first failure unless `exhaustive`."""
    limits = limits_of(problem)
    results: list[TestResult] = []
    for test in problem.coverage(coverage):
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
        if result.verdict is not Verdict.ACCEPTED and not exhaustive:
            break
    return results
