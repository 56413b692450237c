"""What an episode in progress is, what limits it, and what is left of it when the instrument fails it.

Data only: episodes are played in `player.py`.
"""

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from cef_env.agents.base import Message, Reply, Trajectory, plain
from cef_env.envs.turns import positive
from cef_env.errors import InstrumentError, UserError
from cef_env.judge import Outcome


class EpisodeTimeoutError(InstrumentError):
    """A step, or a whole episode, took longer than it may."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An episode that the instrument failed, each time that it was tried: it has no reward."""

    index: int
    """Position of the episode among those that were asked for."""
    problem_id: str | None
    reason: str
    """Of the last try."""
    attempts: int
    timed_out: bool


@dataclass(frozen=True, slots=True)
class Job:
    """An episode to be played."""

    index: int
    problem_id: str | None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of everything episodes may take."""

    concurrency: int = 16
    """Episodes at once; of environments that were given, how many step at once."""
    step_timeout_s: float | None = None
    """Of one step or reset of an environment."""
    episode_timeout_s: float | None = None
    """Of the steps of one episode and the agent's answers to it. Waiting for others does not count."""
    retries: int = 0
    """How often an episode that the instrument failed is played again."""

    def __post_init__(self) -> None:
        positive("concurrency", self.concurrency)
        for name in ("step_timeout_s", "episode_timeout_s"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name), whole=False)
        if not isinstance(self.retries, int) or self.retries < 0:
            raise UserError(f"retries={self.retries!r}: use a whole number, 0 or more")


@dataclass(eq=False, slots=True)
class Episode:
    """One try at an episode."""

    job: Job
    attempt: int = 1
    env: gym.Env[str, str] | None = None
    messages: list[Message] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    reward: float = 0.0
    done: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    spent_s: float = 0.0
    in_env: bool = False
    """Whether its call in progress is one of the environment; else of the agent."""
    stuck: bool = False
    """Its environment is in a call that was left behind."""

    def hear(self, observation: str) -> None:
        self.messages.append({"role": "user", "content": observation})

    def say(self, reply: Reply) -> None:
        self.replies.append(reply)
        self.messages.append(reply.message())

    def trajectory(self) -> Trajectory:
        return Trajectory(
            problem_id=str(self.info["problem_id"]),
            messages=tuple(plain(self.messages)),
            reward=self.reward,
            outcome=Outcome(str(self.info["outcome"])),
            info=self.info,
            replies=tuple(self.replies),
        )
