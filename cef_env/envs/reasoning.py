"""The single-turn setting: read a problem, write one answer.

Does not hold the taxonomy or the limits (see `cef_env.judge`) and does not shape rewards (see
`cef_env.rewards`). Try it: `cef play cef/Reasoning-v0`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym

from cef_env.envs.prompts import prompt_text, require_prompt
from cef_env.envs.spaces import Unicode
from cef_env.envs.text import CutText, extract_program
from cef_env.errors import UserError
from cef_env.judge import FormatErrorCause, Judge, JudgeResult, shared_judge
from cef_env.problems import Problem, ProblemSet, load, parse_coverage


class ReasoningEnv(gym.Env[str, str]):
    """
    ## Description
    Competitive programming in one turn (paper: pure reasoning). The agent reads a problem statement and
    answers with a program; the judge runs it on hidden tests in a sandbox.

    ## Action Space
    `Unicode()`: the whole answer. The program is the last fenced code block. An answer that ran out of
    tokens is passed as `cef_env.envs.CutText`, an ordinary string for everything else.

    ## Observation Space
    `Unicode()`: the statement and how to answer. After the step: one line that names the outcome.

    ## Rewards
    R_k: 1 if every test with input shorter than 10^k characters passes, else 0, where k is `coverage`;
    `coverage=None` asks for all tests. One step, one reward.

    ## Starting State
    A problem drawn uniformly by the seed; `options={"problem_id": ...}` picks one.

    ## Episode End
    Terminates after the first step. Never truncates.

    ## Information
    After `reset`: `problem_id`, `levels` (the k with a distinct R_k). After `step` also `outcome` (over the
    tests that were judged), `coverage_reached`, `tier`, `compile_error` (a bool) and `format_error`
    (the cause, or ""). The full `JudgeResult` is `env.unwrapped.result`.

    ## Arguments
    - `coverage`: k, or None (also "inf") for all tests. Only the tests under 10^k are run. Problems
      without any such test have no R_k and are dropped; `env.unwrapped.dropped` says how many.
    - `problems`: a source string ("builtin", "builtin:hard", "jsonl:PATH", ...), or a list of `Problem`.
    - `prompt`: how a problem is put: "plain", "livecodebench", or a jinja2 template (`cef_env.envs.prompts`).
    - `judge`: a `Judge` of your own; by default all environments of the process share one.
    - `render_mode`: None or "ansi".

    ## Errors
    `UserError` for arguments that cannot be honoured; `JudgeError` when the instrument fails: such a step
    has no reward, and the episode should be left out of every statistic.

    ## Version History
    - v0: initial version
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}  # type: ignore[misc]

    def __init__(
        self,
        coverage: int | str | float | None = None,
        problems: str | ProblemSet | Sequence[Problem] = "builtin",
        judge: Judge | None = None,
        prompt: str = "plain",
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UserError(f"render_mode={render_mode!r}: use None or 'ansi'")
        self.coverage = parse_coverage(coverage)
        self.problems = load(problems)
        self.prompt = require_prompt(prompt)
        self.render_mode = render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self._judge = judge
        self._ids = self._eligible()
        self._answer: str | None = None
        self.problem: Problem | None = None
        self.result: JudgeResult | None = None

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

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = dict(options or {})
        problem_id = options.pop("problem_id", None)
        if options:
            raise UserError(f"reset option {next(iter(options))!r} is unknown; the only one is 'problem_id'")
        if problem_id is None:
            problem_id = self._ids[int(self.np_random.integers(len(self._ids)))]
        self.problem = self.problems.get(problem_id)
        if self.coverage is not None and self.problem.levels[0] > self.coverage:
            raise UserError(
                f"problem {problem_id!r} has no test under 10^{self.coverage} characters; "
                f"use coverage >= {self.problem.levels[0]}"
            )
        self.result = self._answer = None
        return prompt_text(self.problem, self.prompt), {
            "problem_id": self.problem.id,
            "levels": self.problem.levels,
        }

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.problem is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        if self.result is not None:
            raise gym.error.ResetNeeded("the episode is over; call reset()")
        if not isinstance(action, str):
            raise UserError(f"action of type {type(action).__name__}: the action is the answer, a str")
        program = extract_program(action)
        if program is None:
            cause = (
                FormatErrorCause.OUT_OF_TOKENS if isinstance(action, CutText) else FormatErrorCause.NO_CODE
            )
            result = JudgeResult.no_program(self.problem.id, self.problem.levels, cause)
        else:
            judge = self._judge or shared_judge()
            result = judge.run(self.problem, program, coverage=self.coverage)
        self.result, self._answer = result, action
        info = {
            "problem_id": self.problem.id,
            "levels": self.problem.levels,
            "outcome": str(result.outcome),
            "coverage_reached": result.coverage_reached,
            "format_error": "" if result.format_error is None else str(result.format_error),
            "compile_error": result.compile_error is not None,
            "tier": result.tier,
        }
        return f"Outcome: {result.outcome}\n", float(result.reward(self.coverage)), True, False, info

    def render(self) -> str | None:
        """The conversation so far, in "ansi" mode."""
        if self.render_mode is None or self.problem is None:
            return None
        parts = [f"[problem {self.problem.id}]\n{prompt_text(self.problem, self.prompt)}"]
        if self.result is not None:
            parts += [f"[answer]\n{self._answer}\n", f"[outcome] {self.result.outcome}\n"]
        return "\n".join(parts)
