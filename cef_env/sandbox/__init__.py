"""Isolation: boxes, their tiers, their limits. Programs never run without one."""

from cef_env.sandbox.box import Box
from cef_env.sandbox.tiers import Plan, Tier, resolve
from cef_env.sandbox.types import BoxError, Contents, Execution, Limits, Stop

__all__ = ["Box", "BoxError", "Contents", "Execution", "Limits", "Plan", "Stop", "Tier", "resolve"]
