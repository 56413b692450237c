"""The failure-conditioned setting: read a problem, a failed program and how it failed; write a better one.

Does not word the failure (see `failures.py`). Try it: `cef play cef/Repair-v0`.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from cef_env.envs.failures import REVEAL, STATISTICS, failure_text, parse_result
from cef_env.envs.prompts import question
from cef_env.envs.reasoning import ReasoningEnv
from cef_env.envs.text import statement_text
from cef_env.errors import UserError
from cef_env.judge import Judge, JudgeResult, Language, Outcome
from cef_env.problems import Problem, ProblemSet, Submission

REPAIRABLE = (Outcome.OPTIMIZATION_FAILURE, Outcome.CORRECTNESS_FAILURE)
"""Outcomes of a program that a prompt can show."""

KEPT = 4096
"""Results of failed programs that a process keeps."""
_kept: OrderedDict[tuple[object, ...], JudgeResult] = OrderedDict()
_lock = threading.Lock()


class RepairEnv(ReasoningEnv):
    """
    ## Description
    Competitive programming after a failure (paper: training on failure context, a repair policy). The agent
    reads a problem statement, a program that failed and statistics of its execution, and answers with a
    program, which the judge runs on hidden tests.

    ## Action Space
    `Unicode()`: the whole answer. The program is the last fenced code block. An answer that ran out of
    tokens is passed as `cef_env.envs.CutText`.

    ## Observation Space
    `Unicode()`: the statement; the failed program; its outcome; how many tests it passed; verdict, CPU time
    and memory of the first failing test against the limits; input, expected output and difference if the
    statement shows that test. After the step: one line that names the outcome.

    CPU time and memory are given in words ("under half of the limit"), and a failure is judged once in a
    process, so that the same seed gives the same observation. Near a step of these words another process may
    measure otherwise; a stored `result` never changes.

    ## Rewards
    R_k of the answer: 1 if every test with input shorter than 10^k characters passes, else 0, where k is
    `coverage`; `coverage=None` asks for all tests. One step, one reward.

    ## Starting State
    A problem and one of its labelled submissions that fails at `coverage`, drawn by the seed.
    `options={"problem_id": ...}` picks the problem, `"program"` beside it gives the failed program, and
    `"result"` its `JudgeResult` (or the JSON of it), which saves judging it.

    ## Episode End
    Terminates after the first step. Never truncates.

    ## Information
    Always: `problem_id`, `levels` (the k with a distinct R_k), `failed_outcome` (of the failed program) and
    `failed_kind` (of the submission, or "given"). After `step` also `outcome` (over the tests that were
    judged), `coverage_reached`, `tier`, `compile_error` (a bool) and `format_error` (the cause, or ""). The
    full `JudgeResult` is `env.unwrapped.result`, that of the failed program `env.unwrapped.failure`.

    ## Arguments
    - `coverage`: k, or None (also "inf") for all tests. Only the tests under 10^k are run. Problems
      without any such test have no R_k and are dropped, as are those that carry no program labelled as
      failing; `env.unwrapped.dropped` says how many. (One whose labelled programs fail beyond 10^k only is
      passed over when it is drawn: that shows when they are judged.)
    - `problems`: a source string ("builtin", "builtin:hard", "jsonl:PATH", ...), or a list of `Problem`.
    - `judge`: a `Judge` of your own; by default all environments of the process share one.
    - `render_mode`: None or "ansi".
    - `exhaustive`: run every test instead of stopping at the first that fails; any wrong answer then
      dominates the outcome. `ContinuousReward` can need it.
    - `reveal`: whose input, expected output and difference are shown: "samples" (of a failing test that the
      statement shows anyway), "nothing", or "all" (of hidden tests too, which gives answers away).
    - `statistics`: "coarse" (in words) or "exact" (as measured, which varies from run to run).

    ## Errors
    `UserError` for arguments that cannot be honoured, and when no problem has a program that fails;
    `JudgeError` when the instrument fails, in `reset` too: the episode should be left out of every
    statistic. It is over then; reset.

    ## Version History
    - v0: initial version
    """

    reset_options: ClassVar[tuple[str, ...]] = ("problem_id", "program", "result")

    def __init__(
        self,
        coverage: int | str | float | None = None,
        problems: str | ProblemSet | Sequence[Problem] = "builtin",
        judge: Judge | None = None,
        render_mode: str | None = None,
        exhaustive: bool = False,
        reveal: str = "samples",
        statistics: str = "coarse",
    ) -> None:
        super().__init__(coverage, problems, judge, render_mode=render_mode, exhaustive=exhaustive)
        for name, value, choices in (("reveal", reveal, REVEAL), ("statistics", statistics, STATISTICS)):
            if value not in choices:
                raise UserError(f"{name}={value!r}: use {', '.join(choices)}")
        self.reveal = reveal
        self.statistics = statistics
        self.failed_program = ""
        self.failure: JudgeResult | None = None
        """How the failed program failed."""
        self._failed_kind = ""
        self._dropped: int | None = None

    @property
    def dropped(self) -> int:
        """How many problems of the source take no part. Reads every problem when it is first asked for."""
        if self._dropped is None:
            able = sum(bool(failing(self._get(id_))) for id_ in self._ids)
            self._dropped = len(self.problems) - able
        return self._dropped

    def _start(self, options: dict[str, Any]) -> tuple[Problem, str]:
        if options.get("program") is None and options.get("result") is None:
            problem = self._draw(options.get("problem_id"))
        else:
            problem = self._given(options)
        assert self.failure is not None
        failure = failure_text(problem, self.failed_program, self.failure, self.reveal, self.statistics)
        return problem, statement_text(f"{question(problem)}\n\n{failure}")

    def _given(self, options: dict[str, Any]) -> Problem:
        """The problem of the options, after keeping their failed program."""
        program, result = options.get("program"), options.get("result")
        if not isinstance(program, str):
            raise UserError(
                f"reset option program is {type(program).__name__}: give the failed program, a str"
            )
        if options.get("problem_id") is None:
            raise UserError("reset option program needs problem_id beside it: which problem did it fail?")
        problem = self._get(options["problem_id"])
        failure = self._fail(problem, program) if result is None else parse_result(result, problem)
        if failure is None:
            raise UserError(
                f"reset option program passes the tests of problem {problem.id!r} at coverage "
                f"{'inf' if self.coverage is None else self.coverage}; give one that fails"
            )
        self.failed_program, self.failure, self._failed_kind = program, failure, "given"
        return problem

    def _draw(self, problem_id: object) -> Problem:
        """A problem, after keeping one of its submissions that fails."""
        for problem in self._candidates(problem_id):
            wrong = failing(problem)
            for index in self.np_random.permutation(len(wrong)):
                submission = wrong[index]
                failure = self._fail(problem, submission.program)
                if failure is not None:
                    self.failed_program, self.failure = submission.program, failure
                    self._failed_kind = submission.kind
                    return problem
        place = f"problem {problem_id!r}" if problem_id is not None else f"source {self.problems.name!r}"
        raise UserError(
            f"{place} carries no labelled submission that fails at coverage "
            f"{'inf' if self.coverage is None else self.coverage}; give reset options problem_id and program"
        )

    def _candidates(self, problem_id: object) -> Iterator[Problem]:
        if problem_id is not None:
            yield self._get(problem_id)
            return
        for index in self.np_random.permutation(len(self._ids)):
            yield self._get(self._ids[index])

    def _fail(self, problem: Problem, program: str) -> JudgeResult | None:
        """How a program fails; None if it does not."""
        judge = self.judge
        limits = (problem.time_limit_s, problem.memory_limit_mb, judge.tier, judge.speed_factor)
        key = (problem.id, problem.tests_hash, program, self.coverage, self.exhaustive, *limits)
        with _lock:
            result = _kept.get(key)
        if result is None:
            result = judge.run(problem, program, self.coverage, exhaustive=self.exhaustive)
            with _lock:
                result = _kept.setdefault(key, result)
                while len(_kept) > KEPT:
                    _kept.popitem(last=False)
        return None if result.outcome is Outcome.CORRECT else result

    def _info(self) -> dict[str, Any]:
        assert self.failure is not None
        failed = {"failed_outcome": str(self.failure.outcome), "failed_kind": self._failed_kind}
        return super()._info() | failed


def failing(problem: Problem) -> list[Submission]:
    """The submissions of a problem that are labelled as failing, in the language of answers."""
    return [
        s
        for s in problem.submissions
        if s.expected and Outcome.CORRECT not in s.expected and s.language == Language.PYTHON
    ]
