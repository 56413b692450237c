"""Environments from what users write: an id, a source, a coverage, and options by name.

Every mistake is one line. Does not play (see `player.py`).
"""

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

import cef_env  # noqa: F401 - registers the environments
from cef_env.errors import CefError, UserError
from cef_env.problems import ProblemSet, parse_coverage

GIVEN = ("coverage", "problems", "judge", "render_mode")
"""Arguments that have a place of their own."""


def registered() -> tuple[str, ...]:
    """The ids of this package."""
    return tuple(sorted(id_ for id_, spec in gym.registry.items() if spec.namespace == "cef"))


def find_spec(env_id: str) -> gym.envs.registration.EnvSpec:
    """The spec of an id; `UserError` lists those that there are."""
    try:
        spec = gym.spec(env_id)
    except (gym.error.Error, ImportError, ValueError) as error:
        raise UserError(f"environment {env_id!r} is unknown; use {', '.join(registered())}") from error
    if spec.namespace != "cef":
        raise UserError(f"environment {env_id!r} is not one of ours; use {', '.join(registered())}")
    return spec


def env_class(env_id: str) -> Any:
    """The class of an id."""
    return gym.envs.registration.load_env_creator(str(find_spec(env_id).entry_point))


def make_env(
    env_id: str,
    problems: ProblemSet,
    coverage: object = None,
    options: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
) -> gym.Env[str, str]:
    """An environment of this package; `UserError` for an id, a name or a value that it does not know."""
    spec = find_spec(env_id)
    options = dict(options or {})
    known = inspect.signature(env_class(env_id)).parameters
    allowed = [name for name in known if name not in GIVEN and name != "self"]
    for name in options:
        if name not in allowed:
            raise UserError(f"environment option {name!r} is unknown to {spec.id}; use {', '.join(allowed)}")
    try:
        return gym.make(
            spec.id,
            disable_env_checker=True,
            coverage=parse_coverage(coverage),
            problems=problems,
            render_mode=render_mode,
            **options,
        )
    except CefError:
        raise
    except Exception as error:
        reason = str(error).partition(" was raised from the environment creator")[0]
        raise UserError(f"environment options of {spec.id}: {reason}") from error
