"""The batch of one RL step: answers to problems, groups drawn again, answers to failures of the same batch.

Everything derives from (seed, step), and problems from their place in the training set, so that a resumed run
draws the same. Does not learn: see `learner.py`.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym

from cef_env.agents import Message, Reply, Trajectory, rollout
from cef_env.agents.base import derived_seed
from cef_env.agents.chat import prompt_ids
from cef_env.agents.transformers_agent import TransformersAgent
from cef_env.envs.repair import REPAIRABLE, RepairEnv
from cef_env.judge import Judge, JudgeResult
from cef_env.problems import Coverage
from cef_env.rewards import ContinuousReward, DiscreteReward
from cef_env.training.config import Config
from cef_env.training.hardware import Hardware
from cef_env.training.rl_config import RewardConfig
from cef_env.training.settings import make_env, problems_of

Env = gym.Env[str, str]


@dataclass(frozen=True)
class Failure:
    """A failed answer: what a repair prompt is made of."""

    problem_id: str
    program: str
    result: JudgeResult


@dataclass
class Batch:
    """What one step has drawn."""

    answers: list[Trajectory]
    """First answers to the step's problems, whatever they earned: what the rates are computed from."""
    learnt: list[Trajectory]
    """What is learnt from, group after group: answers, those that replaced them, and repairs."""
    repairs: list[Trajectory] = field(default_factory=list)
    equal: int = 0
    """Groups of `answers` whose rewards are all equal."""
    redrawn: int = 0
    """Groups that were drawn in the place of such groups."""
    too_long: int = 0
    """Failures whose prompt would not have fitted the model's context."""


class Rollouts:
    """Draws batches; keeps its environments from step to step.

    Attributes:
        seconds: since the last `step`, by phase: `sample` (the model) and `judge` (all else).
    """

    def __init__(
        self, config: Config, coverage: Coverage, agent: TransformersAgent, judge: Judge, hardware: Hardware
    ) -> None:
        rl = config.rl
        self._config = config
        self._agent = _Timed(agent)
        self._hardware = hardware
        self._groups = rl.problems_per_step - rl.repair_groups
        self._base = rl.steps * rl.problems_per_step
        problems = problems_of(config, "train", self._base * (1 + rl.max_redraws), config.seed)
        self._ids = problems.ids

        def envs(make: Callable[[], Env], groups: int) -> list[Env]:
            return [rewarded(make(), rl.reward, coverage) for _ in range(groups * rl.group_size)]

        def repair() -> Env:
            return gym.make(
                "cef/Repair-v0", disable_env_checker=True, coverage=coverage, problems=problems, judge=judge
            )

        self._envs = envs(partial(make_env, config, problems, judge, coverage), self._groups)
        self._repair_envs = [_Given(env) for env in envs(repair, rl.repair_groups)]
        self.seconds: dict[str, float] = {}

    def step(self, step: int) -> Batch:
        """The batch of this step."""
        rl = self._config.rl
        started, self._agent.seconds = time.perf_counter(), 0.0
        seed = self._config.seed * 1_000_003 + step
        first = step * rl.problems_per_step
        answers, failures = self._answer(self._ids[first : first + self._groups], seed)
        groups = self._split(answers)
        equal = [place for place, group in enumerate(groups) if _is_equal(group)]
        batch = Batch(answers, [], equal=len(equal))
        for redraw in range(1, rl.max_redraws + 1):
            if not equal:
                break
            first = self._base + (step * rl.max_redraws + redraw - 1) * rl.problems_per_step
            again, failed = self._answer(self._ids[first : first + len(equal)], derived_seed(seed, redraw))
            failures += failed
            batch.redrawn += len(equal)
            for place, group in zip(equal, self._split(again), strict=True):
                groups[place] = group
            equal = [place for place in equal if _is_equal(groups[place])]
        batch.learnt = [trajectory for group in groups for trajectory in group]
        if rl.repair_groups:
            self._repair(failures, batch, seed)
        total = time.perf_counter() - started
        self.seconds = {"sample": self._agent.seconds, "judge": total - self._agent.seconds}
        return batch

    def _split(self, answers: Sequence[Trajectory]) -> list[list[Trajectory]]:
        size = self._config.rl.group_size
        return [list(answers[start : start + size]) for start in range(0, len(answers), size)]

    def _answer(self, ids: Sequence[str], seed: int) -> tuple[list[Trajectory], list[Failure]]:
        """A group of answers to each problem, and those that failed."""
        wanted = [id_ for id_ in ids for _ in range(self._config.rl.group_size)]
        envs = self._envs[: len(wanted)]
        trajectories = self._rollout(envs, wanted, seed)
        failures = []
        for env in envs:
            inner: Any = env.unwrapped
            if inner.result.outcome in REPAIRABLE:
                failures.append(Failure(inner.problem.id, inner.program, inner.result))
        return trajectories, failures

    def _rollout(self, envs: Sequence[Env], ids: Sequence[str], seed: int) -> list[Trajectory]:
        with self._hardware.autocast():
            return rollout(envs, self._agent, ids, seed)

    def _repair(self, failures: Sequence[Failure], batch: Batch, seed: int) -> None:
        """Answers to failures of this batch (paper: online fixing), for as many groups as there are to be."""
        size, envs = self._config.rl.group_size, self._repair_envs
        ids: list[str] = []
        for failure in in_turn(failures, random.Random(seed)):
            given = {"program": failure.program, "result": failure.result}
            place = len(ids)
            if place == len(envs):
                break
            envs[place].failure = given
            if not self._fits(envs[place].reset(options={"problem_id": failure.problem_id})[0]):
                batch.too_long += 1
                continue
            for env in envs[place : place + size]:
                env.failure = given
            ids += [failure.problem_id] * size
        if ids:
            batch.repairs = self._rollout(envs[: len(ids)], ids, derived_seed(seed, 0))
            batch.learnt += batch.repairs

    def _fits(self, prompt: str) -> bool:
        model, tokenizer = self._agent.inner.model, self._agent.inner.tokenizer
        length = len(prompt_ids(tokenizer, [{"role": "user", "content": prompt}]))
        return length + self._config.max_new_tokens <= model.config.max_position_embeddings


def rewarded(env: Env, reward: RewardConfig, coverage: Coverage) -> Env:
    """The environment with the reward that the config names, of the levels within its coverage."""
    if reward.kind == "coverage":
        return env  # R_k is the environment's own
    levels, weights = reward.within(coverage)
    if reward.kind == "discrete":
        total = sum(weights)
        return DiscreteReward(env, levels, [weight / total for weight in weights])
    if reward.levels is None:
        return ContinuousReward(env)
    return ContinuousReward(env, [level for level in levels if level is not None], weights)


def in_turn(failures: Sequence[Failure], rng: random.Random) -> list[Failure]:
    """Distinct failures in random order, the first of every problem before the second of any."""
    distinct = list({(failure.problem_id, failure.program): failure for failure in failures}.values())
    rng.shuffle(distinct)
    seen: Counter[str] = Counter()
    turns = []
    for failure in distinct:
        turns.append(seen[failure.problem_id])
        seen[failure.problem_id] += 1
    return [distinct[place] for place in sorted(range(len(distinct)), key=turns.__getitem__)]


def _is_equal(group: Sequence[Trajectory]) -> bool:
    return len({trajectory.reward for trajectory in group}) == 1


class _Given(gym.Wrapper[str, str, str, str]):
    """`cef/Repair-v0` that starts with the failure it was given."""

    def __init__(self, env: Env) -> None:
        assert isinstance(env.unwrapped, RepairEnv)
        super().__init__(env)
        self.failure: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        return self.env.reset(seed=seed, options={**(options or {}), **self.failure})


class _Timed:
    """The agent, with the seconds that it has taken."""

    def __init__(self, inner: TransformersAgent) -> None:
        self.inner = inner
        self.seconds = 0.0

    def act(self, messages: list[Message]) -> str:
        return self.inner.act(messages)

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        started = time.perf_counter()
        replies = self.inner.act_batch(conversations, seed)
        self.seconds += time.perf_counter() - started
        return replies
