"""An agent loop for verl: token in, token out, with the settings, labels and logs of the OpenRLHF launch.

    # agents.yaml, named by actor_rollout_ref.rollout.agent.agent_loop_config_path
    - name: cef
      _target_: cef_env.training.doors.verl.CodingAgentLoop
      settings: /shared/launch/agent.json      # written by `cef openrlhf command CONFIG --out /shared/launch`

Data: `rows` of what `cef openrlhf export` writes. An episode whose instrument failed has reward 0, the flag
`cef_error` in verl's reward_extra_info, and a mask without a token: none of it is trained on, but the mean of
its group still counts the 0. Tested with verl 0.9.1.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

from cef_env.envs.text import CutText
from cef_env.errors import UserError
from cef_env.training.openrlhf.chat import between
from cef_env.training.openrlhf.environments import Environments, Label
from cef_env.training.openrlhf.episode import LEAST_TURN, THREADS, Episode, Faults
from cef_env.training.openrlhf.prompts import require_shown
from cef_env.training.openrlhf.settings import AgentSettings

T = TypeVar("T")


def rows(exported: Iterable[dict[str, Any]], agent: str = "cef") -> list[dict[str, Any]]:
    """verl's rows, for JSONL or Parquet, of those of `cef openrlhf export`; `agent` as in agents.yaml.

    Rows of online fixing are left out: an agent loop plays each sample of a prompt by itself.
    """
    return [
        {
            "prompt": [{"role": "user", "content": row["prompt"]}],
            "label": row["label"],
            "agent_name": agent,
            "data_source": f"cef-{row['datasource']}",
            "reward_model": {"style": "environment", "ground_truth": ""},
        }
        for row in exported
        if not Label.parse(row["label"]).fixing
    ]


@cache
def _shared(settings: str) -> tuple[Environments, Faults, ThreadPoolExecutor]:
    """What all episodes of a worker share: verl makes a loop for each."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cef-env")
    return Environments(AgentSettings.read(Path(settings))), Faults(), threads


class CodingAgentLoop(AgentLoopBase):
    """One episode."""

    def __init__(self, *arguments: Any, settings: str, **shared: Any) -> None:
        super().__init__(*arguments, **shared)
        self.environments, self._faults, self._threads = _shared(settings)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play the episode of a row; never raises for a fault of the instrument, unless they go on."""
        messages = list(row["raw_prompt"])
        prompt = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False, **self.apply_chat_template_kwargs
        )
        if len(prompt) > self.rollout_config.prompt_length:
            raise UserError(
                f"a prompt of {len(prompt)} tokens; raise data.max_prompt_length or filter such prompts"
            )
        episode = Episode(self.environments, Label.parse(row["label"]))
        try:
            observation = await self._in_thread(episode.start)
            if not episode.done:
                require_shown(observation, messages[-1]["content"], episode.label.problem_id)
            output = await self._play(episode, list(prompt), sampling_params)
        finally:
            await asyncio.shield(self._in_thread(episode.end))
        self._faults.count(episode.fault)
        if episode.fault is not None:
            output.response_mask = [0] * len(output.response_mask)
        output.reward_score = episode.reward
        output.extra_fields["reward_extra_info"] = episode.logs()
        return output

    async def _play(self, episode: Episode, prompt: list[int], params: dict[str, Any]) -> AgentLoopOutput:
        """Messages of the model and of the environment in turn, until the end or the last token."""
        ids: list[int] = []
        mask: list[int] = []
        logprobs: list[float] | None = []
        extra: dict[str, Any] = {}
        seconds = {"generate_sequences": 0.0, "tool_calls": 0.0}
        turns, request = 1, uuid4().hex
        limit, turn = self.rollout_config.response_length, self.environments.settings.environment.turn_tokens
        while not episode.done:
            left = limit - len(ids)
            budget = left if turn is None else min(left, turn)
            began = monotonic()
            said = await self.server_manager.generate(
                request_id=request, prompt_ids=prompt + ids, sampling_params={**params, "max_tokens": budget}
            )
            generated = monotonic()
            seconds["generate_sequences"] += generated - began
            extra.update(said.extra_fields)
            if said.stop_reason == "aborted" or not said.token_ids:
                episode.fail("the engine gave no whole message")
                break
            tokens = list(said.token_ids)[:budget]
            ids, mask, turns = ids + tokens, mask + [1] * len(tokens), turns + 1
            known = logprobs is not None and said.log_probs is not None
            logprobs = [*(logprobs or ()), *said.log_probs[: len(tokens)]] if known else None
            text = self.tokenizer.decode(tokens, skip_special_tokens=True)
            cut = len(tokens) == budget and tokens[-1] != self.tokenizer.eos_token_id
            observation = await self._in_thread(episode.step, CutText(text) if cut else text)
            seconds["tool_calls"] += monotonic() - generated
            if episode.done:
                break
            feedback = self.tokenizer(
                between(self.tokenizer, observation, tokens[-1]), add_special_tokens=False
            )
            given = feedback["input_ids"]
            if len(ids) + len(given) + LEAST_TURN > limit:
                break
            ids, mask, turns = ids + given, mask + [0] * len(given), turns + 1
            logprobs = None if logprobs is None else logprobs + [0.0] * len(given)
        if not ids:  # a fault before the first message; verl needs a token
            ids, mask, logprobs = [self.tokenizer.eos_token_id], [0], None if logprobs is None else [0.0]
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=ids,
            response_mask=mask,
            response_logprobs=logprobs,
            num_turns=turns,
            metrics=seconds,
            extra_fields={**extra, "turn_scores": [], "tool_rewards": []},
        )

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run blocking work while the other episodes of the worker go on."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
