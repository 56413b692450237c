"""A rollout engine that says what it is told, as OpenRLHF's does: ids with the end token, text without."""

import asyncio
from copy import deepcopy
from types import SimpleNamespace
from typing import Any


def sampling(max_tokens: int | None = None, logprobs: int | None = 1) -> SimpleNamespace:
    """Stands for vLLM's SamplingParams."""
    return SimpleNamespace(max_tokens=max_tokens, logprobs=logprobs, temperature=1.0)


class StandInEngine:
    """Replies in turn; notes what it was asked."""

    def __init__(self, tokenizer: Any, replies: list[str], delay: float = 0.0) -> None:
        self.tokenizer, self.replies, self.delay = tokenizer, list(replies), delay
        self.prompts: list[list[int]] = []
        self.budgets: list[int] = []

    async def generate(self, ids: list[int], params: Any, multi_modal_data: Any = None) -> Any:
        params = deepcopy(params)
        await asyncio.sleep(self.delay)
        self.prompts.append(list(ids))
        self.budgets.append(params.max_tokens)
        text = self.replies.pop(0)
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"] + [self.tokenizer.eos_token_id]
        reason = "stop"
        if len(tokens) > params.max_tokens:
            tokens, reason = tokens[: params.max_tokens], "length"
            text = self.tokenizer.decode(tokens)
        logprobs = [{token: SimpleNamespace(logprob=-0.5)} for token in tokens]
        output = SimpleNamespace(token_ids=tuple(tokens), text=text, finish_reason=reason, logprobs=logprobs)
        return SimpleNamespace(outputs=[output])
