"""Isolation: bubblewrap boxes, their tiers, their limits. Programs never run without one."""

from cef_env.sandbox.box import Box, BoxError, Execution, Limits, Stop
from cef_env.sandbox.tiers import Plan, Tier, resolve

__all__ = ["Box", "BoxError", "Execution", "Limits", "Plan", "Stop", "Tier", "resolve"]
