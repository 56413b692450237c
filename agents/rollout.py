"""Episodes: an agent plays environments, many at a time.

One readable loop: ask the agent for all open conversations at once, step the environments in threads
(judging happens in other processes), repeat until every episode has ended. Does not score or train.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import gymnasium as gym

from cef_env.agents.base import Agent, BatchAgent, Message, Reply, Trajectory, plain
from cef_env.judge import Outcome


@dataclass(slots=True)
class _Episode:
    """An episode in progress."""

    env: gym.Env[str, str]
    messages: list[Message]
    replies: list[Reply] = field(default_factory=list)
    reward: float = 0.0
    done: bool = False
    info: dict[str, object] = field(default_factory=dict)

    def step(self, reply: Reply) -> None:
        self.replies.append(reply)
        self.messages.append(reply.message())
        observation, reward, terminated, truncated, self.info = self.env.step(reply.text)
        self.reward += float(reward)
        self.done = terminated or truncated
        if not self.done:
            self.messages.append({"role": "user", "content": observation})

    def trajectory(self) -> Trajectory:
        return Trajectory(
            problem_id=str(self.info["problem_id"]),
            messages=tuple(plain(self.messages)),
            reward=self.reward,
            outcome=Outcome(str(self.info["outcome"])),
            info=self.info,
            replies=tuple(self.replies),
        )


def act_all(agent: Agent, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
    """One reply per conversation, in one batch where the agent can."""
    if isinstance(agent, BatchAgent):
        return agent.act_batch(conversations, seed)
    return [Reply(agent.act(messages)) for messages in conversations]


def rollout(
    envs: Sequence[gym.Env[str, str]],
    agent: Agent,
    problem_ids: Sequence[str | None],
    seed: int,
    threads: int = 16,
) -> list[Trajectory]:
    """One episode per entry of `envs`, all together.

    Args:
        envs: environments; each plays one episode.
        agent: anything with `act(messages) -> str`; `act_batch` is used when it is there.
        problem_ids: which problem each environment plays; None draws one by the seed.
        seed: the seed of the episodes and of the agent's sampling.
        threads: how many environments step at once; they mostly wait for judge processes.

    Returns trajectories in the order of `envs`. An `InstrumentError` of any environment is raised: there
    is no reward to be made of it.
    """
    episodes = []
    for index, (env, problem_id) in enumerate(zip(envs, problem_ids, strict=True)):
        options = None if problem_id is None else {"problem_id": problem_id}
        observation, info = env.reset(seed=seed + index, options=options)
        episodes.append(_Episode(env, [{"role": "user", "content": observation}], info=info))
    turn = 0
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="env") as pool:
        while open_episodes := [episode for episode in episodes if not episode.done]:
            replies = act_all(agent, [episode.messages for episode in open_episodes], seed + turn)
            list(pool.map(_Episode.step, open_episodes, replies))
            turn += 1
    return [episode.trajectory() for episode in episodes]
