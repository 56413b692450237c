"""Rewards as Gymnasium wrappers over the one `JudgeResult` of an episode.

Nothing is judged twice: a wrapper reads `env.unwrapped.result`. Works on every environment of this
package, since all of them end an episode with a `JudgeResult`.
"""

from typing import Any, SupportsFloat

import gymnasium as gym

from cef_env.errors import UserError
from cef_env.problems.types import parse_coverage


class CoverageReward(gym.Wrapper[str, str, str, str], gym.utils.RecordConstructorArgs):
    """Replaces the reward of the final step by R_k (paper: nested-coverage reward).

    Args:
        env: an environment of this package, judged at coverage k or more.
        coverage: k, or None (also "inf") for R_inf.

    Raises `UserError` when the environment runs fewer tests than R_k needs.
    """

    def __init__(self, env: gym.Env[str, str], coverage: int | str | float | None = None) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, coverage=coverage)
        gym.Wrapper.__init__(self, env)
        self.coverage = parse_coverage(coverage)
        judged = env.unwrapped.coverage  # type: ignore[attr-defined]
        if judged is not None and (self.coverage is None or self.coverage > judged):
            wanted = "inf" if self.coverage is None else self.coverage
            raise UserError(
                f"CoverageReward(coverage={wanted}): the environment judges coverage {judged} only; "
                f"make it with coverage={wanted} or more"
            )

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        result = self.env.unwrapped.result  # type: ignore[attr-defined]
        if result is not None:
            reward = float(result.reward(self.coverage))
        return observation, reward, terminated, truncated, info
