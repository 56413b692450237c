"""Environments for many episodes at once: made for the label of a prompt, lent, and kept for the next.

A label names the source, the problem and the coverage; it holds no test. Does not play (see `episode.py`).
"""

import json
import threading
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym

import cef_env  # noqa: F401 (registers the environments)
from cef_env.errors import UserError
from cef_env.judge.base import BaseJudge
from cef_env.problems import Coverage, ProblemSet, load, parse_coverage
from cef_env.rewards import ContinuousReward, CoverageReward, DiscreteReward
from cef_env.training.openrlhf.settings import IDS, AgentSettings

Env = gym.Env[str, str]
SPLITS = ("train", "eval")


@dataclass(frozen=True, slots=True)
class Label:
    """What the dataset says beside a prompt, as JSON in OpenRLHF's label."""

    source: str
    """Of the problem, as `cef_env.problems.load` takes it."""
    problem_id: str
    coverage: Coverage
    split: str = "train"
    """`train` (the reward of the config) or `eval` (R_k)."""
    program: str | None = None
    """Repair: the program that failed."""
    result: dict[str, Any] | None = None
    """Repair: how it failed (`JudgeResult.to_json`)."""
    fixing: bool = False
    """Online fixing: the model's own answer comes first, and is the program and result if it fails."""

    def text(self) -> str:
        """JSON; `parse` inverts it."""
        known = {name: value for name, value in asdict(self).items() if value not in (None, False)}
        return json.dumps({**known, "coverage": self.coverage or "inf"})

    @classmethod
    def parse(cls, text: str) -> "Label":
        """`UserError` when the text is no label of ours."""
        try:
            data = json.loads(text)
            label = cls(**{**data, "coverage": parse_coverage(data["coverage"])})
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"label {str(text)[:80]!r} is not of `cef openrlhf export` ({error}); export again, and use "
                "--data.label_key label"
            ) from error
        if label.split not in SPLITS:
            raise UserError(f"label split={label.split!r}: use {' or '.join(SPLITS)}")
        return label

    @property
    def kind(self) -> tuple[str, Coverage, str, bool]:
        """The same for labels that can use the same environment."""
        return self.source, self.coverage, self.split, self.program is not None

    @property
    def options(self) -> dict[str, Any]:
        """Of `reset`."""
        repair = {"program": self.program, "result": self.result} if self.program is not None else {}
        return {"problem_id": self.problem_id, **repair}


class Environments:
    """Environments that are lent and given back, with one judge and one copy of each source. Thread-safe."""

    def __init__(self, settings: AgentSettings, judge: BaseJudge | None = None) -> None:
        self.settings = settings
        self._judge = judge
        self._lock = threading.Lock()
        self._sources: dict[str, ProblemSet] = {}
        self._idle: dict[tuple[str, Coverage, str, bool], list[Env]] = defaultdict(list)
        self._closed = False

    def lend(self, label: Label) -> Env:
        """An environment for the label; blocks while its source is read for the first time."""
        with self._lock:
            idle = self._idle[label.kind]
            if idle:
                return idle.pop()
            judge = self._judge = self._judge or make_judge(self.settings)
            if label.source not in self._sources:
                self._sources[label.source] = load(label.source)
            problems = self._sources[label.source]
        settings = self.settings if label.program is None else self.settings.repair
        return make_environment(settings, problems, label.coverage, label.split, judge)

    def give_back(self, label: Label, env: Env, keep: bool) -> None:
        """Keep an environment for the next episode, or close it."""
        with self._lock:
            keep = keep and not self._closed
            if keep:
                self._idle[label.kind].append(env)
        if not keep:
            env.close()

    def first_shown(self, label: Label) -> str:
        """What an episode of the label shows first."""
        env = self.lend(label)
        begun = False
        try:
            observation, _ = env.reset(options=label.options)
            begun = True
            return observation
        finally:
            self.give_back(label, env, keep=begun)

    def close(self) -> None:
        """Close what is idle; what is lent closes when it comes back. Leaves the judge alone."""
        with self._lock:
            self._closed = True
            idle = [env for envs in self._idle.values() for env in envs]
            self._idle.clear()
        for env in idle:
            env.close()


def make_judge(settings: AgentSettings) -> BaseJudge:
    """The judge of the settings: of all nodes of the Ray cluster, or of this machine."""
    one = settings.judge
    if one.backend == "ray":
        from cef_env.judge.ray_judge import NodeSettings, RayJudge

        return RayJudge(NodeSettings(one.workers, one.sandbox, one.packages, one.speed_factor))
    from cef_env.judge import Judge

    return Judge(one.workers, one.sandbox, packages=one.packages, speed_factor=one.speed_factor)


def make_environment(
    settings: AgentSettings, problems: ProblemSet, coverage: Coverage, split: str, judge: BaseJudge | None
) -> Env:
    """One environment with its reward: that of the settings in training, R_k in evaluation."""
    train = split == "train"
    judged = settings.environment.judged(coverage) if train else coverage
    env: Env = gym.make(
        IDS[settings.environment.setting],
        disable_env_checker=True,
        coverage=judged,
        problems=problems,
        judge=judge,
        **settings.environment.arguments,
    )
    if not train:
        return env
    reward = settings.reward
    weights = None if reward.weights is None else list(reward.weights)
    if reward.kind == "discrete":
        return DiscreteReward(env, list(reward.levels or ()), weights)
    if reward.kind == "continuous":
        levels = None if reward.levels is None else [level for level in reward.levels if level is not None]
        return ContinuousReward(env, levels, weights)
    return env if judged == coverage else CoverageReward(env, coverage)
