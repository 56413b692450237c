"""The environments; importing `cef_env` registers them with Gymnasium."""

from cef_env.envs.agentic import AgenticEnv
from cef_env.envs.reasoning import ReasoningEnv
from cef_env.envs.repair import RepairEnv
from cef_env.envs.spaces import Unicode
from cef_env.envs.text import CutText
from cef_env.envs.tool_use import ToolUseEnv
from cef_env.envs.vector import ThreadVectorEnv

__all__ = [
    "AgenticEnv",
    "CutText",
    "ReasoningEnv",
    "RepairEnv",
    "ThreadVectorEnv",
    "ToolUseEnv",
    "Unicode",
]
