"""Agents from strings, as the command line names them.

    scripted:NAME       programs that a source carries, or noise (`scripted.py`)
    hf:PATH             a Hugging Face model directory, sampled in this process (`transformers_agent.py`)
    vllm:PATH           the same in vLLM's engine (`vllm_agent.py`)
    openai:MODEL@URL    a server that speaks OpenAI's chat completions (`openai_agent.py`)
    module:attr         your own: an object with `act`, a class or function that makes one, or a function
                        `solve(statement, terminal)` that works in a terminal (`terminal_agent.py`)

Loads nothing that the string does not ask for.
"""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from cef_env.agents.base import Agent
from cef_env.agents.scripted import RandomTextAgent, ScriptedAgent
from cef_env.agents.terminal_agent import TerminalAgent, describe
from cef_env.errors import CefError, UserError
from cef_env.problems import ProblemSet

FORMS = "scripted:NAME, hf:PATH, vllm:PATH, openai:MODEL@URL or module:attr"


def make_agent(spec: str, problems: ProblemSet, **options: Any) -> Agent:
    """An agent from its string.

    Args:
        spec: one of `FORMS`. `module:attr` is imported; a class or function is called with the options,
            except a function whose second parameter is `terminal`, which plays `cef/Agentic-v0` itself.
        problems: what it will play (the scripted agents look solutions up there).
        options: of the agent: `temperature`, `max_new_tokens` and `stop` for models; see each.

    Raises `UserError`, one line, for whatever cannot be had.
    """
    scheme, _, rest = spec.partition(":")
    if not scheme or not rest:
        raise UserError(f"agent {spec!r} is not understood; use {FORMS}")
    if scheme == "scripted":
        _require_arguments(spec, lambda: None, **options)
        return RandomTextAgent() if rest == "random_text" else ScriptedAgent(rest, problems)
    if scheme == "hf":
        try:
            from cef_env.agents.transformers_agent import TransformersAgent, load_model
        except ImportError as error:
            raise UserError(f'agent {spec!r}: {error}; pip install "cef-env[train]"') from error
        _require_arguments(spec, TransformersAgent, None, None, **options)  # before anything is loaded
        return TransformersAgent(*load_model(rest), **options)
    if scheme == "vllm":
        from cef_env.agents.vllm_agent import VLLMAgent

        return VLLMAgent(rest, **options)
    if scheme == "openai":
        from cef_env.agents.openai_agent import OpenAIAgent, split_spec

        model, url = split_spec(rest)
        _require_arguments(spec, OpenAIAgent, model, url, **options)
        return OpenAIAgent(model, url, **options)
    return _own(spec, scheme, rest, options)


def _require_arguments(spec: str, function: Callable[..., Any], *args: Any, **options: Any) -> None:
    """`UserError` when the function does not take these arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # of some functions in C it is not known
        return
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        raise UserError(f"agent {spec!r}: {error}; see the arguments that it takes") from error


def _own(spec: str, module: str, name: str, options: dict[str, Any]) -> Agent:
    try:
        found = getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError, TypeError, ValueError) as error:
        raise UserError(f"agent {spec!r}: {error}; use {FORMS}") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"agent {spec!r}: {module} cannot be imported: {describe(error)}") from error
    if inspect.isfunction(found) and list(inspect.signature(found).parameters)[1:2] == ["terminal"]:
        _require_arguments(spec, lambda: None, **options)
        return TerminalAgent(found)
    if isinstance(found, Agent) and not inspect.isclass(found):
        _require_arguments(spec, lambda: None, **options)
        return found
    if inspect.isfunction(found) and list(inspect.signature(found).parameters)[:1] == ["messages"]:
        raise UserError(
            f"agent {spec!r}: is a function of messages; give an object or a class with "
            "act(messages) -> str, or a function of (statement, terminal)"
        )
    if not callable(found):
        raise UserError(f"agent {spec!r}: it has no act(messages) -> str and cannot be called to make one")
    _require_arguments(spec, found, **options)
    try:
        agent = found(**options)
    except CefError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"agent {spec!r} cannot be made: {describe(error)}") from error
    if not isinstance(agent, Agent) or inspect.isclass(agent):
        raise UserError(f"agent {spec!r}: what it returned has no act(messages) -> str")
    return agent
