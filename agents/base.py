"""What an agent is, and what an episode leaves behind.

An agent is any object with `act(messages) -> str`. Does not run episodes: see `rollout.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, runtime_checkable

from cef_env.judge import Outcome


class Message(TypedDict):
    """One message of a conversation, in the form that chat templates take."""

    role: str
    content: str


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
    token_ids: tuple[int, ...] = ()
    """The sampled tokens, the end token included when there was one."""
    logprobs: tuple[float, ...] = ()
    """log p of each sampled token under the sampling policy at temperature 1."""


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
