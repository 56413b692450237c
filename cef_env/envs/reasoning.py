"""The single-turn setting: read a problem, write one answer.

Does not hold the taxonomy or the limits (see `cef_env.judge`) and does not shape rewards (see
`cef_env.rewards`). Try it: `cef play cef/Reasoning-v0`.
"""

from collections.abc import Sequence

from cef_env.envs.base import CodingEnv
from cef_env.envs.prompts import prompt_text, require_prompt
from cef_env.envs.text import CutText, extract_program
from cef_env.judge import FormatErrorCause, Judge, JudgeResult
from cef_env.problems import Problem, ProblemSet


class ReasoningEnv(CodingEnv):
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
    - `exhaustive`: run every test instead of stopping at the first that fails; any wrong answer then
      dominates the outcome. `ContinuousReward` can need it.

    ## Errors
    `UserError` for arguments that cannot be honoured; `JudgeError` when the instrument fails: such a step
    has no reward, and the episode should be left out of every statistic. It is over then; reset.

    ## Version History
    - v0: initial version
    """

    def __init__(
        self,
        coverage: int | str | float | None = None,
        problems: str | ProblemSet | Sequence[Problem] = "builtin",
        judge: Judge | None = None,
        prompt: str = "plain",
        render_mode: str | None = None,
        exhaustive: bool = False,
    ) -> None:
        super().__init__(coverage, problems, judge, render_mode, exhaustive)
        self.prompt = require_prompt(prompt)

    def _begin(self, problem: Problem) -> str:
        return prompt_text(problem, self.prompt)

    def _respond(self, action: str) -> JudgeResult:
        program = extract_program(action)
        if program is not None:
            return self._judged(program)
        cut = isinstance(action, CutText)
        return self._no_program(FormatErrorCause.OUT_OF_TOKENS if cut else FormatErrorCause.NO_CODE)
