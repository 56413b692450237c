"""Agents, and episodes that they play. Nothing here imports torch until a model is asked for."""

from typing import Any

from cef_env.agents.base import Agent, BatchAgent, Message, Reply, Trajectory
from cef_env.agents.rollout import rollout
from cef_env.agents.scripted import NAMES, RandomTextAgent, ScriptedAgent
from cef_env.errors import UserError
from cef_env.problems import ProblemSet


def make_agent(spec: str, problems: ProblemSet, **options: Any) -> Agent:
    """An agent from its string: `scripted:NAME`, `hf:PATH`, or `module:attr`.

    Args:
        spec: the string; `module:attr` names a callable that returns an agent.
        problems: what it will play (the scripted agents look solutions up there).
        options: passed to `TransformersAgent` or to the callable.
    """
    scheme, _, rest = spec.partition(":")
    if scheme == "scripted" and rest == "random_text":
        return RandomTextAgent()
    if scheme == "scripted":
        return ScriptedAgent(rest, problems)
    if scheme == "hf" and rest:
        from cef_env.agents.transformers_agent import TransformersAgent, load_model

        return TransformersAgent(*load_model(rest), **options)
    if scheme and rest:
        import importlib

        try:
            factory = getattr(importlib.import_module(scheme), rest)
        except (ImportError, AttributeError) as error:
            raise UserError(f"agent {spec!r}: {error}; use scripted:NAME, hf:PATH or module:attr") from error
        try:
            agent = factory(**options)
        except TypeError as error:
            raise UserError(f"agent {spec!r} cannot be called: {error}") from error
        if not isinstance(agent, Agent):
            raise UserError(f"agent {spec!r}: what it returned has no act(messages) -> str")
        return agent
    raise UserError(f"agent {spec!r} is not understood; use scripted:NAME, hf:PATH or module:attr")


__all__ = [
    "NAMES",
    "Agent",
    "BatchAgent",
    "Message",
    "RandomTextAgent",
    "Reply",
    "ScriptedAgent",
    "Trajectory",
    "make_agent",
    "rollout",
]
