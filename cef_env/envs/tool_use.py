"""The tool-use setting: try Python code in a sandbox, then answer.

Does not run code itself (see `cef_env.sandbox.python_tool`) and does not read tool calls (`tool_calls.py`).
Try it: `cef play cef/ToolUse-v0`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from cef_env.envs.prompts import question
from cef_env.envs.text import CutText, extract_program
from cef_env.envs.tool_calls import ToolCall
from cef_env.envs.tools import Tool, tools_text
from cef_env.envs.turns import ToolEnv, positive
from cef_env.errors import UserError
from cef_env.judge import FormatErrorCause, Judge, JudgeResult
from cef_env.problems import Problem, ProblemSet
from cef_env.sandbox import Limits, resolve

if TYPE_CHECKING:
    from cef_env.sandbox.python_tool import PythonTool

STATES = {
    "call": "Every call starts afresh.",
    "episode": "Names that a call defines stay for the calls after it.",
}

OUTPUT_BYTES = 4 << 20
"""That a call may print before it is stopped."""


class ToolUseEnv(ToolEnv):
    """
    ## Description
    Competitive programming with a Python tool (paper: tool use). The agent reads a problem statement, runs
    code in a sandbox over several turns, and answers with a program, which the judge runs on hidden tests.

    ## Action Space
    `Unicode()`: one message. With tool calls
    `<tool_call>{"name": "python", "arguments": {"code": "..."}}</tool_call>` it runs them, in order, and
    costs one turn however many they are (eight at most). Without, it is the final answer: its program is the
    last fenced code block. A message that ran out of tokens is passed as `cef_env.envs.CutText`.

    ## Observation Space
    `Unicode()`: the statement, the tool in the form of Qwen2.5's chat template, and how to answer. After tool
    calls a `<tool_response>` for each: what the code printed, and how many messages are left. A call that
    cannot be read is answered with an explanation. At the end one line that names the outcome. No times:
    the same seed and actions give the same observations, as far as the code that is run does.

    ## Rewards
    R_k at the end: 1 if every test with input shorter than 10^k characters passes, else 0, where k is
    `coverage`; `coverage=None` asks for all tests. 0 before.

    ## Starting State
    A problem drawn uniformly by the seed; `options={"problem_id": ...}` picks one. The sandbox starts with
    the first call, forgets everything between episodes, and ends with `env.close()`.

    ## Episode End
    Terminates with the first message without tool calls, a format error (`no_code`, `out_of_tokens`) if it
    holds no program. Truncates when the last turn brings no answer, a format error too (`out_of_turns`); the
    calls of that turn are not run.

    ## Information
    Always: `problem_id`, `levels` (the k with a distinct R_k), `turns` (messages so far), `tool_calls` (those
    that were run). At the end also `outcome` (over the tests that were judged), `coverage_reached`, `tier`,
    `compile_error` (a bool) and `format_error` (the cause, or ""). The full `JudgeResult` is
    `env.unwrapped.result`, the judged program `env.unwrapped.program`.

    ## Arguments
    - `coverage`: k, or None (also "inf") for all tests. Only the tests under 10^k are run. Problems
      without any such test have no R_k and are dropped; `env.unwrapped.dropped` says how many.
    - `problems`: a source string ("builtin", "builtin:hard", "jsonl:PATH", ...), or a list of `Problem`.
    - `judge`: a `Judge` of your own; by default all environments of the process share one.
    - `render_mode`: None or "ansi".
    - `exhaustive`: run every test instead of stopping at the first that fails; any wrong answer then
      dominates the outcome. `ContinuousReward` can need it.
    - `max_turns`: messages of the agent, the final answer included.
    - `tool_state`: "call" (every call starts afresh) or "episode" (names stay defined).
    - `tool_time_s`: CPU seconds of a call.
    - `tool_memory_mb`: MiB of a call.
    - `tool_output`: characters of a call's output that are shown; more is cut in the middle, with a count.
    - `sandbox`: "auto", or the name of an isolation tier, for the tool; the judge has its own.

    ## Errors
    `UserError` for arguments that cannot be honoured; `InstrumentError` when judge or sandbox fails: such a
    step has no reward, and the episode should be left out of every statistic. It is over then; reset.

    ## Version History
    - v0: initial version
    """

    tools: ClassVar[tuple[Tool, ...]] = (
        Tool(
            "python",
            "Runs Python code in a sandbox without network and returns what it prints.",
            "code",
            "Python source code; print what you want to see.",
        ),
    )

    def __init__(
        self,
        coverage: int | str | float | None = None,
        problems: str | ProblemSet | Sequence[Problem] = "builtin",
        judge: Judge | None = None,
        render_mode: str | None = None,
        exhaustive: bool = False,
        max_turns: int = 8,
        tool_state: str = "call",
        tool_time_s: float = 10.0,
        tool_memory_mb: int = 512,
        tool_output: int = 10_000,
        sandbox: str = "auto",
    ) -> None:
        super().__init__(
            max_turns,
            coverage=coverage,
            problems=problems,
            judge=judge,
            render_mode=render_mode,
            exhaustive=exhaustive,
        )
        if tool_state not in tuple(STATES):
            raise UserError(f"tool_state={tool_state!r}: use {' or '.join(STATES)}")
        self.tool_state = tool_state
        self.tool_time_s = float(positive("tool_time_s", tool_time_s, whole=False))
        self.tool_memory_mb = positive("tool_memory_mb", tool_memory_mb)
        self.tool_output = positive("tool_output", tool_output)
        self._plan = resolve(sandbox)
        self._tool: PythonTool | None = None

    def _first_message(self, problem: Problem) -> str:
        return (
            f"{question(problem)}\n\n{tools_text(self.tools)}"
            f"{STATES[self.tool_state]} A call has {self.tool_time_s:g} s of CPU time and "
            f"{self.tool_memory_mb} MiB.\n\n"
            "When you are done, answer without a tool call: one Python program in a fenced code block. "
            f"You have {self.max_turns} messages, the answer included.\n"
        )

    def _call(self, call: ToolCall) -> str:
        if self._tool is None:
            self._tool = self._open()
        return self._tool.run(call.argument).output.rstrip() or "[no output]"

    def _open(self) -> "PythonTool":
        from cef_env.sandbox.python_tool import PythonTool

        limits = Limits(self.tool_time_s, self.tool_memory_mb << 20, OUTPUT_BYTES)
        return PythonTool(self._plan, self.tool_state, limits, self.tool_output)  # type: ignore[arg-type]

    def _without_calls(self, action: str) -> JudgeResult:
        program = extract_program(action)
        if program is not None:
            return self._judged(program)
        cut = isinstance(action, CutText)
        return self._no_program(FormatErrorCause.OUT_OF_TOKENS if cut else FormatErrorCause.NO_CODE)

    def _release(self) -> None:
        if self._tool is not None:  # its box is worth keeping: the next episode need not start one
            self._tool.reset()

    def close(self) -> None:
        tool, self._tool = self._tool, None
        if tool is not None:
            tool.close()
