"""Online fixing: the samples of one prompt share one failed answer, drawn with the weights that answer it.

OpenRLHF asks its engine once for all samples of a prompt, and compares their rewards with one another; so
they must be shown the same failure. Nothing else is shared, within a batch or between batches. Does not play
(see `executor.py`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cef_env.training.openrlhf.chat import without_special
from cef_env.training.openrlhf.environments import Label
from cef_env.training.openrlhf.episode import LEAST_TURN
from cef_env.training.openrlhf.prompts import without_image_tags

T = TypeVar("T")


@dataclass(frozen=True)
class Shown:
    """What an episode begins with."""

    prompt: str
    """As the chat template renders it."""
    label: Label
    exported: bool = True
    """Whether the prompt stands in the dataset, so that it can be out of date."""


class OncePerGroup(Generic[T]):
    """Work that the first sample of a group starts and the others wait for.

    A group is the samples of one request. It is known by the sampling parameters, which OpenRLHF 0.11.2 gives
    to all samples of a request as one object, made for that request alone: neither the time nor the step,
    which the agent is not told, is needed. All samples ask before the work of the first can end, since they
    are started in one go.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[int, str], _Group[T]] = {}

    async def get(self, parameters: object, label: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `work`, or what it raised."""
        key = id(parameters), label
        if key not in self._groups:
            self._groups[key] = _Group(parameters, asyncio.create_task(work()))
        group = self._groups[key]
        group.waiting += 1
        try:
            return await asyncio.shield(group.result)
        finally:
            group.waiting -= 1
            if not group.waiting:
                del self._groups[key]


@dataclass
class _Group(Generic[T]):
    parameters: object
    """Kept, so that no other object takes its id."""
    result: asyncio.Task[T]
    waiting: int = 0


def shown_failure(
    tokenizer: Any, observation: str, failure: Label, max_length: int, turn: int | None
) -> Shown | None:
    """A failure as the prompt of an episode; None if that leaves no room for a message of `turn` tokens."""
    # The failed program is the model's own text: what looks like the end of a message in it must not be one.
    content = without_special(tokenizer, without_image_tags(observation))
    messages = [{"role": "user", "content": content}]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    tokens = len(tokenizer(text=prompt, add_special_tokens=False)["input_ids"])
    if tokens + (turn or LEAST_TURN) > max_length:
        return None
    return Shown(prompt, failure, exported=False)
