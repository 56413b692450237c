"""The registered environments; importing this module registers them with Gymnasium."""

import gymnasium as gym

from cef_env.envs.agentic import AgenticEnv
from cef_env.envs.reasoning import ReasoningEnv
from cef_env.envs.repair import RepairEnv
from cef_env.envs.spaces import Unicode
from cef_env.envs.text import CutText
from cef_env.envs.tool_use import ToolUseEnv
from cef_env.envs.vector import ThreadVectorEnv

for _name, _class in (
    ("reasoning", ReasoningEnv),
    ("tool_use", ToolUseEnv),
    ("agentic", AgenticEnv),
    ("repair", RepairEnv),
):
    gym.register(
        id=f"cef/{_class.__name__.removesuffix('Env')}-v0",
        entry_point=f"{_class.__module__}:{_class.__name__}",
        vector_entry_point=f"cef_env.envs.vector:{_name}",
        # Gymnasium's checker keeps what the first reset returns, and fails every step once that reset raised.
        disable_env_checker=True,
    )

__all__ = [
    "AgenticEnv",
    "CutText",
    "ReasoningEnv",
    "RepairEnv",
    "ThreadVectorEnv",
    "ToolUseEnv",
    "Unicode",
]
