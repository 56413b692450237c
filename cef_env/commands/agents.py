"""`cef play` and `cef rollout`: episodes, played by a person or by an agent."""

import os
import sys
from typing import Annotated

import typer
from rich.markup import escape

from cef_env.commands.console import Out, console
from cef_env.errors import UserError


def play(env_id: Annotated[str, typer.Argument()] = "cef/Reasoning-v0", problems: str = "builtin") -> None:
    """You are the agent: read a problem, type an answer, end it with ctrl-D."""
    import gymnasium as gym

    import cef_env  # noqa: F401 - registers the environments

    try:
        env = gym.make(env_id, problems=problems, render_mode="ansi")
    except gym.error.UnregisteredEnv as error:
        raise UserError(f"environment {env_id!r} is unknown; use cef/Reasoning-v0") from error
    observation, _ = env.reset()
    done = False
    while not done:
        console.print(observation, markup=False, highlight=False)
        observation, reward, terminated, truncated, info = env.step(sys.stdin.read())
        done = terminated or truncated
    console.print(observation, markup=False, highlight=False, end="")
    console.print(f"reward {reward:g}, coverage reached {info['coverage_reached']}")
    env.close()


def rollout(
    agent: Annotated[str, typer.Option(help="scripted:NAME, hf:PATH or module:attr")],
    out: Out,
    env: Annotated[str, typer.Option(help="Environment id.")] = "cef/Reasoning-v0",
    problems: Annotated[str, typer.Option(help="Problem source.")] = "builtin",
    coverage: Annotated[str, typer.Option(help="k, or inf for all tests.")] = "inf",
    seed: int = 0,
) -> None:
    """An agent plays every problem of a source once; trajectories go to OUT/trajectories.jsonl."""
    from cef_env.agents.record import record_rollouts

    sys.path.insert(0, os.getcwd())  # where the module of module:attr usually is
    outcomes = record_rollouts(env, agent, problems, coverage, seed, out)
    for outcome, count in outcomes.items():
        console.print(f"{outcome:<22}{count}")
    console.print(f"Trajectories: {escape(str(out / 'trajectories.jsonl'))}", soft_wrap=True)
