"""cef-env: correctness-efficiency frontiers in code RL (arXiv 2605.28751).

`import cef_env` registers the environments with Gymnasium and stays light: neither torch nor
transformers nor docker is imported here.

    import cef_env, gymnasium as gym
    env = gym.make("cef/Reasoning-v0", coverage=3)
"""

from cef_env import envs
from cef_env.errors import CefError, InstrumentError, JudgeError, SandboxUnavailableError, UserError

__version__ = "0.1.0"
__all__ = ["CefError", "InstrumentError", "JudgeError", "SandboxUnavailableError", "UserError", "envs"]
