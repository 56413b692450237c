"""The tool-use and agentic settings as environments of TRL's GRPOTrainer.

    GRPOTrainer(..., train_dataset=Dataset.from_list(rows("builtin", 3)),
                environment_factory=partial(ToolUse, problems="builtin", coverage=3),
                reward_funcs=answer_reward)

`Agentic` owns its reward and needs no `reward_funcs`. TRL renders the tools and reads the calls, by the chat
template of the model, and runs the calls of a message one by one: here a call costs one of `max_turns`, not a
message. An episode whose instrument failed has the reward None, which TRL leaves out of the group; the model
may still be shown that its call failed. Imports nothing of TRL; tested with TRL 1.16.
"""

import logging
import re
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

from cef_env.agents.environments import make_env
from cef_env.envs.tools import call_text, tools_text
from cef_env.errors import InstrumentError
from cef_env.problems import ProblemSet, load, parse_coverage

_RESPONSE = re.compile(r"<tool_response>\n(.*)\n</tool_response>\n(.*)", re.DOTALL)
_log = logging.getLogger(__name__)


def rows(problems: str | ProblemSet, coverage: object = None) -> list[dict[str, Any]]:
    """A row of the dataset for each problem that has an R_k: the environment writes the prompt at `reset`."""
    source, k = load(problems), parse_coverage(coverage)
    ids = [id_ for id_ in source.ids if k is None or source.smallest_level(id_) <= k]
    return [{"prompt": [{"role": "user", "content": ""}], "problem_id": id_} for id_ in ids]


class _Rollout:
    """One episode after the other. TRL takes public methods as tools, so what is none has an underscore."""

    _env_id: ClassVar[str]

    def __init__(
        self, problems: str | ProblemSet = "builtin", coverage: object = None, **options: Any
    ) -> None:
        self._env = make_env(self._env_id, load(problems), coverage, options)
        self._reward: float | None = 0.0
        self._over = True
        self._info: dict[str, Any] = {}
        weakref.finalize(self, self._env.close)  # TRL closes nothing

    def reset(self, problem_id: str, **_: Any) -> str:
        """Start an episode on the problem of a row; returns what TRL appends to its prompt."""
        self._reward, self._over = 0.0, False
        text, self._info = self._env.reset(options={"problem_id": problem_id})
        # TRL's prompt tells the tools itself, in the form of the model's chat template.
        return text.replace(tools_text(self._env.unwrapped.tools), "")  # type: ignore[attr-defined]

    def _say(self, message: str) -> str:
        """What the model reads after a message of its own; a fault raises, and the reward is None."""
        if self._over:
            return "The episode is over."
        try:
            text, reward, terminated, truncated, self._info = self._env.step(message)
        except InstrumentError as error:
            self._reward, self._over = None, True
            _log.warning("episode on %s has no reward: %s", self._info["problem_id"], error)
            raise
        if terminated or truncated:
            self._reward, self._over = float(reward), True
        found = _RESPONSE.fullmatch(text)
        return "\n".join(found.groups()) if found else text

    def _end(self) -> float | None:
        """The reward; an episode without an answer has 0, and gives back its sandbox."""
        if not self._over:
            self._over = True
            self._env.close()
        return self._reward


class ToolUse(_Rollout):
    """`cef/ToolUse-v0`; use with `answer_reward`. Further arguments are those of the environment."""

    _env_id = "cef/ToolUse-v0"

    def python(self, code: str) -> str:
        """
        Runs Python code in a sandbox without network and returns what it prints.

        Args:
            code: Python source code; print what you want to see.

        Returns:
            What the code printed, and how many messages are left.
        """
        return self._say(call_text("python", "code", code))


class Agentic(_Rollout):
    """`cef/Agentic-v0`. Further arguments are those of the environment."""

    _env_id = "cef/Agentic-v0"

    def bash(self, command: str) -> str:
        """
        Runs a command in a terminal; folder, variables and files stay for the next command.

        Args:
            command: The command, for bash.

        Returns:
            Output and exit status, and how many messages are left.
        """
        return self._say(call_text("bash", "command", command))

    def submit(self, path: str) -> str:
        """
        Hands in a program as the final answer and ends the work.

        Args:
            path: The file: .py for Python, .cpp for C++17.

        Returns:
            The outcome, or why the file cannot be handed in.
        """
        return self._say(call_text("submit", "path", path))

    def get_reward(self) -> float | None:
        """R_k of what was handed in, 0 without; None after a fault of the instrument."""
        return self._end()


def answer_reward(
    completions: Sequence[list[dict[str, Any]]], environments: Sequence[ToolUse], **_: Any
) -> list[float | None]:
    """TRL's `reward_funcs` for `ToolUse`, whose answer is the last message: R_k, or None after a fault.

    TRL shows `get_reward` no message, so this setting has none.
    """
    for completion, environment in zip(completions, environments, strict=True):
        last = completion[-1] if completion else {}
        if last.get("role") == "assistant" and not last.get("tool_calls"):
            try:
                environment._say(str(last.get("content") or ""))
            except InstrumentError:
                continue  # kept as the reward None
    return [environment._end() for environment in environments]
