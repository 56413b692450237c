"""Our environments behind OpenRLHF's agent interface; the agent file on the cluster imports this.

    AgentExecutor = executor_for(__file__)        # reads agent.json beside the file

OpenRLHF's own multi-turn loop samples and keeps the tokens. What it leaves to the agent is done here:
an answer that fails can be drawn first and shown to all samples of a prompt (`fixing.py`),
blocking work leaves the engine's event loop, a message has a budget of its own, feedback never overruns the
length, an environment is given back whatever happens, a fault becomes reward 0 and a flag, and every episode
has the same logs (`episode.LOGS`). Needs OpenRLHF 0.11.2.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from openrlhf.utils.agent import AgentExecutorBase, AgentInstanceBase, MultiTurnAgentExecutor

from cef_env.envs.text import CutText
from cef_env.training.openrlhf.chat import between
from cef_env.training.openrlhf.environments import Environments, Label
from cef_env.training.openrlhf.episode import LEAST_TURN, THREADS, Episode, Faults
from cef_env.training.openrlhf.fixing import OncePerGroup, Shown, shown_failure
from cef_env.training.openrlhf.prompts import require_shown
from cef_env.training.openrlhf.settings import AgentSettings

T = TypeVar("T")


class _Engine:
    """The rollout engine, as one episode uses it: bounds a message, and remembers how it ended."""

    def __init__(self, engine: Any, max_length: int, turn_tokens: int | None) -> None:
        self._engine, self._max_length, self._turn_tokens = engine, max_length, turn_tokens
        self.cut = False
        """Whether the last message was cut by its budget."""
        self.last: int | None = None
        """The last token of the last message; its text does not tell, since the engine leaves the end out."""
        self.left = max_length
        """Tokens that the episode has left."""

    async def generate(self, ids: list[int], params: Any, multi_modal_data: Any = None) -> Any:
        if self._turn_tokens is not None:
            params.max_tokens = min(params.max_tokens, self._turn_tokens)
        answer = await self._engine.generate(ids, params, multi_modal_data=multi_modal_data)
        output = answer.outputs[0]
        output.token_ids = list(output.token_ids)  # OpenRLHF adds lists
        self.cut = output.finish_reason == "length"
        self.last = output.token_ids[-1] if output.token_ids else None
        self.left = self._max_length - len(ids) - len(output.token_ids)
        return answer


@dataclass(frozen=True)
class _Request:
    """What the samples of a prompt have in common."""

    params: Any
    max_length: int
    tokenizer: Any
    engine: Any


class CodingAgentExecutor(AgentExecutorBase):
    """Plays episodes for one rollout engine. Its class is made by `executor_for`."""

    settings_path: Path

    def __init__(self, environments: Environments | None = None) -> None:
        self.environments = environments or Environments(AgentSettings.read(self.settings_path))
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cef-env")
        self._faults = Faults()
        self._failures: OncePerGroup[Shown] = OncePerGroup()

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """One episode, in the form that OpenRLHF documents. Our prompts have no `images`."""
        request = _Request(sampling_params, max_length, hf_tokenizer, llm_engine)
        shown = Shown(prompt, Label.parse(label))
        if shown.label.fixing:
            plain = shown
            shown = await self._failures.get(sampling_params, label, lambda: self._failed(plain, request))
        episode, answer = await self._play(shown, request)
        earned = {"reward": episode.reward, "scores": episode.reward}
        return {**answer, "label": label, **earned, "extra_logs": episode.logs()}

    async def _failed(self, plain: Shown, request: _Request) -> Shown:
        """What all samples of a prompt are shown after one answer to it: how it failed, or the prompt."""
        episode, _ = await self._play(plain, request)
        failure = episode.failure
        if failure is None:
            return plain
        observation = await self.in_thread(self.environments.first_shown, failure)
        turn = self.environments.settings.environment.turn_tokens
        return shown_failure(request.tokenizer, observation, failure, request.max_length, turn) or plain

    async def _play(self, shown: Shown, request: _Request) -> tuple[Episode, dict[str, Any]]:
        """An episode to its end, and what OpenRLHF's loop makes of it."""
        prompt, tokenizer, max_length = shown.prompt, request.tokenizer, request.max_length
        episode = Episode(self.environments, shown.label)
        engine = _Engine(request.engine, max_length, self.environments.settings.environment.turn_tokens)
        params = deepcopy(request.params)  # one object serves all samples of a prompt
        params.max_tokens = None  # else OpenRLHF cuts prompts to leave room for that many
        if len(tokenizer(text=prompt, add_special_tokens=False)["input_ids"]) + LEAST_TURN > max_length:
            episode.fail(f"the prompt leaves no room within {max_length} tokens")
        try:
            loop = MultiTurnAgentExecutor(_agent(self, episode, engine, tokenizer, shown.exported))
            answer = await loop.execute(prompt, "", params, max_length, tokenizer, engine)
        finally:
            await asyncio.shield(self.in_thread(episode.end))
        self._faults.count(episode.fault)
        return episode, answer

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run blocking work while the engine goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


def _agent(
    executor: CodingAgentExecutor, episode: Episode, engine: _Engine, tokenizer: Any, exported: bool
) -> type:
    """The class that OpenRLHF makes one agent of, for one episode."""

    class Agent(AgentInstanceBase):
        def __init__(self) -> None: ...

        async def reset(self, states: dict[str, Any], **_: Any) -> dict[str, Any]:
            prompt = states["observation"]
            observation = "" if episode.done else await executor.in_thread(episode.start)
            if exported and not episode.done:
                require_shown(observation, prompt, episode.label.problem_id)
            return {"observation": prompt}

        async def step(self, states: dict[str, Any], **_: Any) -> dict[str, Any]:
            text = states["action_text"]
            message = CutText(text) if engine.cut else text
            observation = await executor.in_thread(episode.step, message)
            feedback = "" if episode.done else between(tokenizer, observation, engine.last)
            tokens = len(tokenizer(text=feedback, add_special_tokens=False)["input_ids"]) if feedback else 0
            over = not episode.done and tokens + LEAST_TURN > engine.left
            return {
                "rewards": torch.tensor(episode.reward if episode.done else 0.0),
                "environment_feedback": "" if over else feedback,
                "done": episode.done or over,
            }

    return Agent


def executor_for(agent_file: str) -> type[CodingAgentExecutor]:
    """The class that OpenRLHF makes without arguments, for the `agent.json` beside an agent file."""

    class AgentExecutor(CodingAgentExecutor):
        settings_path = Path(agent_file).with_name("agent.json")

    return AgentExecutor
