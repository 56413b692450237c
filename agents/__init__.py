"""Agents, and episodes that they play. Nothing here imports torch until a model is asked for."""

from cef_env.agents.base import Agent, BatchAgent, Message, Reply, Trajectory
from cef_env.agents.episode import Fault
from cef_env.agents.make import make_agent
from cef_env.agents.rollout import rollout
from cef_env.agents.scripted import NAMES, RandomTextAgent, ScriptedAgent
from cef_env.agents.terminal_agent import TerminalAgent, TerminalHandle

__all__ = [
    "NAMES",
    "Agent",
    "BatchAgent",
    "Fault",
    "Message",
    "RandomTextAgent",
    "Reply",
    "ScriptedAgent",
    "TerminalAgent",
    "TerminalHandle",
    "Trajectory",
    "make_agent",
    "rollout",
]
