"""What an agent is, and what an episode leaves behind.

An agent is any object with `act(messages) -> str`. Does not run episodes: see `rollout.py`.
"""

import hashlib
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, runtime_checkable

from cef_env.errors import InstrumentError, UserError
from cef_env.judge import Outcome


class Message(TypedDict):
    """One message of a conversation, in the form that chat templates take."""

    role: str
    content: str


class Said(str):
    """The content of an assistant message that knows the reply it is (`Reply.message`).

    An agent that samples tokens goes on from the very ids that it sampled; it encodes the text of any other
    string. In all else an ordinary string, in JSON too.
    """

    reply: "Reply"


@runtime_checkable
class Agent(Protocol):
    """Answers a conversation; its first message is the environment's observation, as the user's turn."""

    def act(self, messages: list[Message]) -> str:
        """The next assistant message; `CutText` when the token budget cut it."""


@runtime_checkable
class BatchAgent(Agent, Protocol):
    """An agent that answers many conversations at once."""

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list["Reply"]:
        """One reply per conversation, in order; the same seed gives the same replies."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer together with what the sampler knows about it."""

    text: str
    """`CutText` when the token budget cut it."""
    prompt_ids: tuple[int, ...] = ()
    """What the model was fed: the whole conversation up to this answer."""
    token_ids: tuple[int, ...] = ()
    """The sampled tokens, the end token included when there was one. They may hold a few characters more than
    `text`, which ends where a stop string ends."""
    logprobs: tuple[float, ...] = ()
    """log p of each sampled token under the distribution that it was drawn from, temperature included."""

    def message(self) -> Message:
        """The assistant message to append to the conversation."""
        content = Said(self.text)
        content.reply = self
        return {"role": "assistant", "content": content}


def checked(reply: object) -> Reply:
    """What an agent returned for one conversation, with plain numbers in place of those of numpy and others.

    Raises `UserError` when it is no `Reply` that can be kept: its text is a str, ids are whole numbers, and
    log-probs are finite.
    """
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        what = type(reply.text if isinstance(reply, Reply) else reply).__name__
        raise UserError(
            f"the agent returned {what}: act returns a str, act_batch a Reply for each conversation"
        )
    try:
        prompt_ids, token_ids = (
            tuple(map(operator.index, ids)) for ids in (reply.prompt_ids, reply.token_ids)
        )
        logprobs = tuple(map(float, reply.logprobs))
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the agent returned a Reply whose ids or logprobs are no numbers: {error}"
        ) from error
    if not all(map(math.isfinite, logprobs)):
        raise UserError("the agent returned a Reply with a log-prob that is not finite")
    return Reply(reply.text, prompt_ids, token_ids, logprobs)


def plain(messages: Sequence[Message]) -> list[Message]:
    """The messages without what `Said` knows."""
    return [{"role": message["role"], "content": str(message["content"])} for message in messages]


def derived_seed(seed: int, index: int) -> int:
    """The seed of one request of a batch: 31 bits, which every sampler takes."""
    return int.from_bytes(hashlib.sha256(f"{seed} {index}".encode()).digest()[:4], "big") >> 1


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One finished episode."""

    problem_id: str
    messages: tuple[Message, ...]
    reward: float
    outcome: Outcome
    """Over the tests that the environment judged."""
    info: dict[str, Any] = field(default_factory=dict)
    """The environment's last `info`."""
    replies: tuple[Reply, ...] = ()
    """One per assistant turn, where the agent tells."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids of the whole conversation, from the first message to the end of the last answer.

        Exactly what the model was fed and what it sampled; () where the agent does not tell ids. Raises
        `InstrumentError` when a turn was not fed with the ids of the turns before it, as behind a server that
        encodes the conversation anew: there is no one sequence then.
        """
        if not self.replies or not all(reply.prompt_ids for reply in self.replies):
            return ()
        said: tuple[int, ...] = ()
        for turn, reply in enumerate(self.replies):
            if reply.prompt_ids[: len(said)] != said:
                raise InstrumentError(
                    f"problem {self.problem_id!r}: turn {turn + 1} was not fed with the tokens of the turns "
                    "before it; such a trajectory cannot be trained on as one sequence"
                )
            said = reply.prompt_ids + reply.token_ids
        return said

    @property
    def mask(self) -> tuple[int, ...]:
        """For each of `tokens`: 1 where the model sampled it, 0 where it was given."""
        mask = [0] * len(self.tokens)
        for start, stop in self._sampled():
            mask[start:stop] = [1] * (stop - start)
        return tuple(mask)

    @property
    def logprobs(self) -> tuple[float, ...]:
        """For each of `tokens`: its `Reply.logprobs` where it was sampled, 0 where it was given.

        () where the agent does not tell the log-prob of every sampled token.
        """
        if any(len(reply.logprobs) != len(reply.token_ids) for reply in self.replies):
            return ()
        values = [0.0] * len(self.tokens)
        for reply, (start, stop) in zip(self.replies, self._sampled()):
            values[start:stop] = reply.logprobs
        return tuple(values)

    def _sampled(self) -> list[tuple[int, int]]:
        """Half-open ranges of `tokens`, one per turn."""
        if not self.tokens:
            return []
        return [
            (len(reply.prompt_ids), len(reply.prompt_ids) + len(reply.token_ids)) for reply in self.replies
        ]
