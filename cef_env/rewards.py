"""Rewards as Gymnasium wrappers over the one `JudgeResult` of an episode.

Nothing is judged twice: a wrapper reads `env.unwrapped.result`. Works on every environment of this
package, since all of them end an episode with a `JudgeResult`. A reward that the result cannot know is an
error: when the wrapper is made where that is possible, else at the end of the episode.

    CoverageReward      R_k                                             (paper: nested-coverage reward)
    DiscreteReward      weighted sum of R_k over some k                 (paper: static shaping, discrete)
    ContinuousReward    weighted fractions of tests passed              (paper: static shaping, continuous)
    OutcomeInfo         R_k for every k and the first failure, in `info`; the reward stays
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium as gym

from cef_env.errors import UserError
from cef_env.judge import JudgeResult, Verdict
from cef_env.problems.types import Coverage, Problem, coverage_level, parse_coverage

Written = int | str | float | None
"""A coverage as users write it."""


class _ResultReward(gym.Wrapper[str, str, str, str], gym.utils.RecordConstructorArgs):
    """Replaces the reward of the final step by one made of the episode's result."""

    def reward_of(self, result: JudgeResult, problem: Problem) -> float:
        """The reward; `UserError` when the result cannot know it."""
        raise NotImplementedError

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        inner: Any = self.env.unwrapped
        if inner.result is not None:
            reward = self.reward_of(inner.result, inner.problem)
        return observation, reward, terminated, truncated, info

    def _refuse_beyond(self, coverage: Coverage) -> None:
        """`UserError` when the environment runs fewer tests than R_k of this coverage needs."""
        judged = self.env.unwrapped.coverage  # type: ignore[attr-defined]
        if judged is not None and (coverage is None or coverage > judged):
            wanted = "inf" if coverage is None else coverage
            raise UserError(
                f"{type(self).__name__}(coverage={wanted}): the environment judges coverage {judged} only; "
                f"make it with coverage={wanted} or more"
            )


class CoverageReward(_ResultReward):
    """Replaces the reward of the final step by R_k (paper: nested-coverage reward).

    Args:
        env: an environment of this package, judged at coverage k or more.
        coverage: k, or None (also "inf") for R_inf.

    Raises `UserError` when the environment runs fewer tests than R_k needs.
    """

    def __init__(self, env: gym.Env[str, str], coverage: Written = None) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, coverage=coverage)
        gym.Wrapper.__init__(self, env)
        self.coverage = parse_coverage(coverage)
        self._refuse_beyond(self.coverage)

    def reward_of(self, result: JudgeResult, problem: Problem) -> float:
        return float(result.reward(self.coverage))


class DiscreteReward(_ResultReward):
    """Replaces the reward of the final step by sum_i w_i R_{k_i} (paper: static shaping, discrete).

    A problem without any test under 10^{k_i} has no R_{k_i}: that level is left out and the other weights are
    scaled up, so that a correct program gets the same on every problem.

    Args:
        env: an environment of this package, judged at every level or more.
        levels: the k_i, ascending; None or "inf" for all tests.
        weights: the w_i, positive; by default equal, with sum 1.

    Raises `UserError` when the environment runs fewer tests than a level needs, and at the end of an episode
    whose problem has none of the levels.
    """

    def __init__(
        self, env: gym.Env[str, str], levels: Sequence[Written], weights: Sequence[float] | None = None
    ) -> None:
        levels = list(levels)
        weights = [1 / len(levels)] * len(levels) if weights is None and levels else list(weights or ())
        gym.utils.RecordConstructorArgs.__init__(self, levels=levels, weights=weights)
        gym.Wrapper.__init__(self, env)
        parsed = [parse_coverage(level) for level in levels]
        self.weights = _pairs("DiscreteReward", parsed, weights)
        for level in parsed:
            self._refuse_beyond(level)

    def reward_of(self, result: JudgeResult, problem: Problem) -> float:
        known = [(k, w) for k, w in self.weights if k is None or k >= result.levels[0]]
        if not known:
            raise UserError(
                f"DiscreteReward: problem {problem.id!r} has no test under 10^{self.weights[-1][0]} "
                "characters; add a larger level"
            )
        scale = sum(w for _, w in self.weights) / sum(w for _, w in known)
        return scale * sum(w * result.reward(k) for k, w in known)


class ContinuousReward(_ResultReward):
    """Replaces the reward of the final step by the weighted fraction of tests passed (paper: static shaping,
    continuous): sum_k w_k (passed of level k) / (tests of level k), over the levels that the problem has at
    the environment's coverage, divided by the sum of their weights. Level k holds the tests with 10^(k-1) to
    10^k - 1 characters.

    By default the environment stops at the first failing test. What was not run then counts as not passed:
    the fraction is that of tests *before the first failure*. Make the environment with `exhaustive=True` to
    count every test that passes.

    Args:
        env: an environment of this package.
        levels: the k that have a weight; by default all, with equal weights. Others count nothing.
        weights: the w_k, positive; by default equal.

    Raises `UserError` when a level is beyond the environment's coverage, and at the end of an episode whose
    problem has none of the levels.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        levels: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        if levels is not None:
            levels = list(levels)
            weights = [1.0] * len(levels) if weights is None else list(weights)
        elif weights is not None:
            raise UserError("ContinuousReward(weights=...): give levels beside them, one for each weight")
        gym.utils.RecordConstructorArgs.__init__(self, levels=levels, weights=weights)
        gym.Wrapper.__init__(self, env)
        self.weights: dict[Coverage, float] | None = None
        if levels is not None and weights is not None:
            parsed = [parse_coverage(level) for level in levels]
            if None in parsed:
                raise UserError("ContinuousReward(levels=...): inf is no length of a test; use whole numbers")
            self.weights = dict(_pairs("ContinuousReward", parsed, weights))
            self._refuse_beyond(parsed[-1])

    def reward_of(self, result: JudgeResult, problem: Problem) -> float:
        tests = Counter(coverage_level(test.length) for test in problem.coverage(result.coverage))
        passed = Counter(
            coverage_level(test.length) for test in result.tests if test.verdict is Verdict.ACCEPTED
        )
        weights = {k: 1.0 if self.weights is None else self.weights.get(k, 0.0) for k in tests}
        total = sum(weights.values())
        if total == 0:
            raise UserError(
                f"ContinuousReward: problem {problem.id!r} has no test of the levels "
                f"{list(self.weights or ())}, only of {sorted(tests)}; give those a weight"
            )
        return sum(weight * passed[k] / tests[k] for k, weight in weights.items()) / total


class OutcomeInfo(gym.Wrapper[str, str, str, str], gym.utils.RecordConstructorArgs):
    """Adds to the final `info` what the result knows; the reward stays.

    `rewards`: R_k by k ("1", "2", ...), for the levels of the problem that were judged; `tests_passed` and
    `tests_run`; `failed_verdict` and `failed_length` of the first failing test ("" and -1 if none did). With
    `times=True` also `cpu_s` and `memory_mb`, the largest over the tests: measurements, which vary from run
    to run.
    """

    def __init__(self, env: gym.Env[str, str], times: bool = False) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, times=times)
        gym.Wrapper.__init__(self, env)
        self.times = times

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        result: JudgeResult | None = self.env.unwrapped.result  # type: ignore[attr-defined]
        if result is not None:
            info = info | self._told(result)
        return observation, reward, terminated, truncated, info

    def _told(self, result: JudgeResult) -> dict[str, Any]:
        failed = result.failed
        judged = [k for k in result.levels if result.coverage is None or k <= result.coverage]
        told = {
            "rewards": {str(k): result.reward(k) for k in judged},
            "tests_passed": sum(test.verdict is Verdict.ACCEPTED for test in result.tests),
            "tests_run": len(result.tests),
            "failed_verdict": "" if failed is None else str(failed.verdict),
            "failed_length": -1 if failed is None else failed.length,
        }
        if self.times:
            told["cpu_s"] = max((test.cpu_s for test in result.tests), default=math.nan)
            told["memory_mb"] = max((test.memory_mb for test in result.tests), default=math.nan)
        return told


def _pairs(name: str, levels: Sequence[Coverage], weights: Sequence[float]) -> list[tuple[Coverage, float]]:
    """Levels with their weights, checked."""
    if not levels:
        raise UserError(f"{name}(levels=[]): give at least one level")
    if len(levels) != len(weights):
        raise UserError(f"{name}: {len(levels)} levels but {len(weights)} weights; give one for each")
    order = [math.inf if level is None else level for level in levels]
    if order != sorted(set(order)):
        raise UserError(f"{name}(levels=...): write each level once, in ascending order")
    for weight in weights:
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 < weight < math.inf:
            raise UserError(f"{name}(weights=...): {weight!r} must be a positive number")
    return list(zip(levels, map(float, weights)))
