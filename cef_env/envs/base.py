"""What all settings share: which problem, whose turn, what the answer was worth.

A setting says what the agent reads first (`_begin`) and what follows from a message (`_respond`: a reply, or
the `JudgeResult` that ends the episode). Does not know tools (see `turns.py`) and does not shape rewards (see
`cef_env.rewards`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium as gym

from cef_env.envs.spaces import Unicode
from cef_env.errors import InstrumentError, UserError
from cef_env.judge import FormatErrorCause, Judge, JudgeResult, Language, shared_judge
from cef_env.problems import Problem, ProblemSet, load, parse_coverage

Step = tuple[str, float, bool, bool, dict[str, Any]]


def checked_options(options: Any) -> dict[str, Any]:
    """The options of a reset as a dict of their own."""
    if options is not None and not isinstance(options, Mapping):
        raise UserError(
            f"reset options of type {type(options).__name__}: give a dict, as {{'problem_id': ...}}"
        )
    return dict(options or {})


class CodingEnv(gym.Env[str, str]):
    """An episode on one problem that ends with one `JudgeResult`.

    Args:
        coverage, problems, judge, render_mode, exhaustive: as every setting documents them.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}  # type: ignore[misc]
    reset_options: ClassVar[tuple[str, ...]] = ("problem_id",)
    answer_label: ClassVar[str] = "answer"
    """What `render` calls the messages of the agent."""

    def __init__(
        self,
        coverage: int | str | float | None = None,
        problems: str | ProblemSet | Sequence[Problem] = "builtin",
        judge: Judge | None = None,
        render_mode: str | None = None,
        exhaustive: bool = False,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UserError(f"render_mode={render_mode!r}: use None or 'ansi'")
        if not isinstance(exhaustive, bool):
            raise UserError(f"exhaustive={exhaustive!r}: use True or False")
        if judge is not None and not callable(getattr(judge, "run", None)):
            raise UserError(f"judge={judge!r}: give a cef_env.judge.Judge, or None to share one")
        self.coverage = parse_coverage(coverage)
        self.problems = load(problems)
        self.exhaustive = exhaustive
        self.render_mode = render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self.problem: Problem | None = None
        self.result: JudgeResult | None = None
        self.program: str | None = None
        """The program that was judged, once the episode is over."""
        self._judge = judge
        self._ids = self._eligible()
        self._conversation: list[tuple[str, str]] = []
        self._faulty = False

    def _eligible(self) -> tuple[str, ...]:
        """The ids of the problems that have an R_k at this coverage."""
        k = self.coverage
        ids = self.problems.ids
        if not ids:
            raise UserError(f"problems={self.problems.name!r}: the source holds no problem")
        if k is not None:
            ids = tuple(id_ for id_ in ids if self.problems.smallest_level(id_) <= k)
        if not ids:
            raise UserError(
                f"coverage={k}: no problem of {self.problems.name!r} has a test under 10^{k} characters"
            )
        return ids

    @property
    def dropped(self) -> int:
        """How many problems of the source have no test under 10^coverage and so take no part."""
        return len(self.problems) - len(self._ids)

    @property
    def judge(self) -> Judge:
        """The judge of this environment; started when it is first asked for."""
        return self._judge or shared_judge()

    def _begin(self, problem: Problem) -> str:
        """The first observation of an episode on `problem`."""
        raise NotImplementedError

    def _respond(self, action: str) -> str | JudgeResult:
        """What a message of the agent leads to: the next observation, or the end."""
        raise NotImplementedError

    def _release(self) -> None:
        """Give back what an episode holds outside this process. Must not raise; may be called twice."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._release()
        self.problem = self.result = self.program = None
        self._faulty = False
        options = checked_options(options)
        for name in options:
            if name not in self.reset_options:
                raise UserError(f"reset option {name!r} is unknown; use {', '.join(self.reset_options)}")
        problem, observation = self._start(options)
        self.problem = problem
        self._conversation = [(f"problem {problem.id}", observation)]
        return observation, self._info()

    def _start(self, options: dict[str, Any]) -> tuple[Problem, str]:
        """The problem of an episode and its first observation."""
        problem_id = options.get("problem_id")
        if problem_id is None:
            problem_id = self._ids[int(self.np_random.integers(len(self._ids)))]
        problem = self._get(problem_id)
        return problem, self._begin(problem)

    def _get(self, problem_id: object) -> Problem:
        if not isinstance(problem_id, str):
            raise UserError(f"reset option problem_id={problem_id!r}: give the id of a problem, a str")
        problem = self.problems.get(problem_id)
        if self.coverage is not None and problem.levels[0] > self.coverage:
            raise UserError(
                f"problem {problem_id!r} has no test under 10^{self.coverage} characters; "
                f"use coverage >= {problem.levels[0]}"
            )
        return problem

    def step(self, action: str) -> Step:
        if self.problem is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        if self.result is not None or self._faulty:
            raise gym.error.ResetNeeded("the episode is over; call reset()")
        if not isinstance(action, str):
            raise UserError(f"action of type {type(action).__name__}: the action is the answer, a str")
        self._conversation.append((self.answer_label, f"{action}\n"))
        try:
            reply = self._respond(action)
        except InstrumentError:
            self._faulty = True
            self._release()
            raise
        if isinstance(reply, str):
            self._conversation.append(("environment", reply))
            return reply, 0.0, False, False, self._info()
        self.result = reply
        self._release()
        truncated = reply.format_error is FormatErrorCause.OUT_OF_TURNS
        info = self._info() | {
            "outcome": str(reply.outcome),
            "coverage_reached": reply.coverage_reached,
            "format_error": "" if reply.format_error is None else str(reply.format_error),
            "compile_error": reply.compile_error is not None,
            "tier": reply.tier,
        }
        reward = float(reply.reward(self.coverage))
        return f"Outcome: {reply.outcome}\n", reward, not truncated, truncated, info

    def _info(self) -> dict[str, Any]:
        assert self.problem is not None
        return {"problem_id": self.problem.id, "levels": self.problem.levels}

    def _judged(self, program: str, language: str = Language.PYTHON) -> JudgeResult:
        """What the final answer amounts to."""
        assert self.problem is not None
        result = self.judge.run(
            self.problem, program, self.coverage, exhaustive=self.exhaustive, language=language
        )
        self.program = program
        return result

    def _no_program(self, cause: FormatErrorCause) -> JudgeResult:
        """What an answer without a program amounts to."""
        assert self.problem is not None
        return JudgeResult.no_program(self.problem.id, self.problem.levels, cause)

    def render(self) -> str | None:
        """The conversation so far, in "ansi" mode."""
        if self.render_mode is None or self.problem is None:
            return None
        parts = [f"[{label}]\n{text}" for label, text in self._conversation]
        if self.result is not None:
            parts.append(f"[outcome] {self.result.outcome}\n")
        return "\n".join(parts)

    def close(self) -> None:
        self._release()
