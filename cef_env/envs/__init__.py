"""The registered environments; importing this module registers them with Gymnasium."""

import gymnasium as gym

from cef_env.envs.reasoning import ReasoningEnv
from cef_env.envs.spaces import Unicode
from cef_env.envs.text import CutText

gym.register(id="cef/Reasoning-v0", entry_point="cef_env.envs.reasoning:ReasoningEnv")

__all__ = ["CutText", "ReasoningEnv", "Unicode"]
