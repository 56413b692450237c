"""cef-env: correctness-efficiency frontiers in code RL (arXiv 2605.28751).

`import cef_env` registers the environments with Gymnasium and stays light: neither torch nor
transformers nor docker is imported here.

    import cef_env, gymnasium as gym
    env = gym.make("cef/Reasoning-v0", coverage=3)
"""

import gymnasium as gym

from cef_env.errors import CefError, InstrumentError, JudgeError, SandboxUnavailableError, UserError

__version__ = "0.1.0"
__all__ = ["CefError", "InstrumentError", "JudgeError", "SandboxUnavailableError", "UserError"]

# By name, so that commands which need no environment do not wait for their import.
for _module, _name in (
    ("reasoning", "Reasoning"),
    ("tool_use", "ToolUse"),
    ("agentic", "Agentic"),
    ("repair", "Repair"),
):
    gym.register(
        id=f"cef/{_name}-v0",
        entry_point=f"cef_env.envs.{_module}:{_name}Env",
        vector_entry_point=f"cef_env.envs.vector:{_module}",
        # Gymnasium's checker keeps what the first reset returns, and fails every step once that reset raised.
        disable_env_checker=True,
    )
