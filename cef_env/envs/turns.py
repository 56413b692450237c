"""Settings of many turns: tool calls are read, run and answered until an answer or the last turn.

A setting with tools says what they are, what each does (`_call`) and what a message without calls means
(`_without_calls`). Does not read calls itself (see `tool_calls.py`) and holds no sandbox.
"""

from typing import Any, ClassVar

from cef_env.envs.base import CodingEnv
from cef_env.envs.text import CutText, final_part
from cef_env.envs.tool_calls import ToolCall, Unreadable, parse_tool_calls
from cef_env.envs.tools import Tool, responses_text
from cef_env.errors import UserError
from cef_env.judge import FormatErrorCause, JudgeResult
from cef_env.problems import Problem

MOST = 10**9
"""Of every limit, in whatever unit: beyond it clocks and limits of the kernel overflow."""


class ToolEnv(CodingEnv):
    """An episode of at most `max_turns` messages.

    One message costs one turn, however many calls it makes; they are run in order, up to
    `tool_calls.MOST_CALLS` of them. A call that cannot be read is answered with an explanation.
    """

    tools: ClassVar[tuple[Tool, ...]]
    answer_label: ClassVar[str] = "agent"

    def __init__(self, max_turns: int, **shared: Any) -> None:
        super().__init__(**shared)
        self.max_turns = positive("max_turns", max_turns)
        self.turns = 0
        self.tool_calls = 0

    def _begin(self, problem: Problem) -> str:
        self.turns = self.tool_calls = 0
        return self._first_message(problem)

    def _first_message(self, problem: Problem) -> str:
        """The statement, the tools and how to answer."""
        raise NotImplementedError

    def _call(self, call: ToolCall) -> str | JudgeResult:
        """Run one call: what it printed, or the end of the episode."""
        raise NotImplementedError

    def _without_calls(self, action: str) -> str | JudgeResult:
        """What a message without tool calls leads to."""
        raise NotImplementedError

    def _can_answer(self, call: ToolCall) -> bool:
        """Whether this call may end the episode, so that it is worth running in the last turn."""
        return False

    def _respond(self, action: str) -> str | JudgeResult:
        self.turns += 1
        last = self.turns == self.max_turns
        calls = parse_tool_calls(final_part(action), self.tools)
        readable = [call for call in calls if isinstance(call, ToolCall)]
        if calls and not readable and isinstance(action, CutText):
            return self._no_program(FormatErrorCause.OUT_OF_TOKENS)
        outputs: list[str] = []
        if not calls:
            reply = self._without_calls(action)
            if isinstance(reply, JudgeResult):
                return reply
            outputs = [reply]
        elif not last or any(self._can_answer(call) for call in readable):
            for call in calls:
                output = self._explain(call) if isinstance(call, Unreadable) else self._call(call)
                self.tool_calls += isinstance(call, ToolCall)
                if isinstance(output, JudgeResult):
                    return output
                outputs.append(output)
        if last:
            return self._no_program(FormatErrorCause.OUT_OF_TURNS)
        left = self.max_turns - self.turns
        text = responses_text(outputs) if calls else f"{outputs[0].rstrip()}\n"
        return f"{text}Messages left: {left}\n"

    def _explain(self, call: Unreadable) -> str:
        examples = "\n".join(tool.example() for tool in self.tools)
        return f"This tool call was not run: {call.reason}.\nWrite calls in this form:\n{examples}"

    def _info(self) -> dict[str, Any]:
        return super()._info() | {"turns": self.turns, "tool_calls": self.tool_calls}


def positive(name: str, value: Any, whole: bool = True) -> Any:
    """`value` if it is a positive number up to `MOST`; `UserError` names the argument otherwise."""
    kinds = int if whole else int | float
    if not isinstance(value, kinds) or isinstance(value, bool) or not 0 < value <= MOST:
        what = f"a positive {'whole ' if whole else ''}number up to 10^9"
        raise UserError(f"{name}={value!r}: use {what}")
    return value
