"""A failed program and what is told about its failure.

Text only: which program failed is chosen in `repair.py`, and how it failed is a `JudgeResult`.
"""

import math

from cef_env.envs.text import fenced
from cef_env.errors import UserError
from cef_env.judge import JudgeResult, Outcome, Verdict
from cef_env.problems import Problem, TestCase
from cef_env.problems.types import coverage_level

REVEAL = ("nothing", "samples", "all")
STATISTICS = ("coarse", "exact")
MOST_SHOWN = 1000
"""Characters of an input or output; the middle of a longer one is left out."""


def parse_result(value: object, problem: Problem) -> JudgeResult:
    """A failure from a `JudgeResult` or its JSON form; `UserError` if it cannot be one of this problem."""
    try:
        result = value if isinstance(value, JudgeResult) else JudgeResult.from_json(value)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"reset option result: not a JudgeResult or its to_json() ({type(error).__name__}: {error})"
        ) from error
    lengths = [test.length for test in problem.coverage(result.coverage)][: len(result.tests)]
    if result.problem_id != problem.id or [test.length for test in result.tests] != lengths:
        raise UserError(f"reset option result: it is not of problem {problem.id!r} with these tests")
    if result.outcome in (Outcome.CORRECT, Outcome.FORMAT_ERROR):
        raise UserError(f"reset option result: {result.outcome} leaves nothing to repair; give a failure")
    return result


def failure_text(problem: Problem, program: str, result: JudgeResult, reveal: str, statistics: str) -> str:
    """The failed program and how it failed (paper: failed code plus execution statistics).

    Args:
        reveal: whose input, expected output and difference are shown: of no failing test, of one that the
            statement shows anyway, or of any.
        statistics: CPU time and memory in words, or as measured (which varies from run to run).
    """
    lines = ["This program failed:", "", fenced(program), "", f"Outcome: {result.outcome}"]
    if result.compile_error is not None:
        return "\n".join([*lines, f"It does not compile: {result.compile_error}"]) + "\n"
    tests = problem.coverage(result.coverage)
    position = next(i for i, test in enumerate(result.tests) if test.verdict is not Verdict.ACCEPTED)
    failed, test = result.tests[position], tests[position]
    low, high = 10 ** (coverage_level(test.length) - 1), 10 ** coverage_level(test.length)
    lines += [
        f"Tests accepted before the first failure: {position} of {len(tests)} (short inputs come first)",
        f"First failing test: {failed.verdict}, input of {0 if high == 10 else low} to {high - 1} characters",
    ]
    limit_s, limit_mb = problem.time_limit_s * result.speed_factor, problem.memory_limit_mb
    if failed.verdict is Verdict.TIME_LIMIT and failed.cpu_s <= limit_s:
        cpu = "it waited without using any"
    else:
        over = failed.verdict is Verdict.TIME_LIMIT
        cpu = against_limit(failed.cpu_s, limit_s, "s", over, statistics)
    over = failed.verdict is Verdict.MEMORY_LIMIT
    lines += [
        f"CPU time there: {cpu}",
        f"Memory there: {against_limit(failed.memory_mb, limit_mb, 'MiB', over, statistics)}",
    ]
    if reveal == "all" or (reveal == "samples" and test.sample):
        lines += _revealed(test, failed.verdict, failed.detail)
    return "\n".join(lines) + "\n"


def against_limit(used: float, limit: float, unit: str, over: bool, statistics: str) -> str:
    """How much of a limit was used.

    In words the steps are so coarse that a measurement seldom crosses one between two runs.
    """
    if statistics == "exact":
        return f"{used:.3f} {unit}, limit {limit:g} {unit}"
    share = used / limit
    steps = ((0.1, "under a tenth of"), (0.5, "under half of"), (math.inf, "over half of"))
    words = "over" if over else next(words for most, words in steps if share < most)
    return f"{words} the limit of {limit:g} {unit}"


def _revealed(test: TestCase, verdict: Verdict, detail: str) -> list[str]:
    """The failing test itself. The detail of an exceeded limit repeats the limit, or is a measurement."""
    shown = ["", "Its input:", _block(test.input), "Expected output:", _block(test.output)]
    if verdict in (Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR) and detail:
        shown.append(f"What went wrong: {detail}")
    return shown


def _block(text: str) -> str:
    if len(text) > MOST_SHOWN:
        half = MOST_SHOWN // 2
        text = f"{text[:half]}\n... {len(text) - MOST_SHOWN} characters left out ...\n{text[-half:]}"
    return f"```\n{text.rstrip()}\n```"
