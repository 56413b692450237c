"""The three settings of the paper for the miniature: environment, its limits, and how problems are put.

Does not play (`trajectories.py`, `rollouts.py`) and does not hold sizes (`configs/settings`).
"""

from dataclasses import replace
from typing import Any

import gymnasium as gym

import cef_env  # noqa: F401 - registers the environments
from cef_env.judge import Judge
from cef_env.problems import Coverage, Problem, ProblemSet, builtin
from cef_env.training.config import Config

ENVIRONMENTS = {
    "reasoning": "cef/Reasoning-v0",
    "tool_use": "cef/ToolUse-v0",
    "agentic": "cef/Agentic-v0",
}
SAMPLES = "Samples: "
"""What goes before them in a statement."""
SIGNS = (" / ", " = ", "; ")
"""Between the lines of an input, before the output, and before the next sample."""
TOOL_TIME_S = 2.0
"""CPU seconds of a call of the Python tool: samples take milliseconds, and a loop without end is to cost
little. Terminals bound the CPU time of programs by the command itself (`scripted.py`)."""


def env_options(config: Config) -> dict[str, Any]:
    """Arguments of the setting's environment, besides coverage, problems and judge."""
    if config.setting == "reasoning":
        return {}
    options: dict[str, Any] = {"max_turns": config.max_turns}
    return options | ({"tool_time_s": TOOL_TIME_S} if config.setting == "tool_use" else {})


def make_env(
    config: Config, problems: ProblemSet, judge: Judge, coverage: Coverage = None
) -> gym.Env[str, str]:
    """An environment of the config's setting."""
    return gym.make(
        ENVIRONMENTS[config.setting],
        disable_env_checker=True,
        coverage=coverage,
        problems=problems,
        judge=judge,
        **env_options(config),
    )


def problems_of(config: Config, split: str, count: int, seed: int) -> ProblemSet:
    """Built-in problems as the setting puts them.

    In tool use the statement ends with the samples: the Python tool has no files, so whoever wants to run a
    program on them has to read them. In a terminal they are files.
    """
    problems = builtin.load(split, count=count, seed=seed, graded=config.graded)
    if config.setting != "tool_use":
        return problems
    return ProblemSet(
        problems.name,
        problems.ids,
        lambda id_: with_samples(problems.get(id_)),
        smallest_level=problems.smallest_level,
    )


def with_samples(problem: Problem) -> Problem:
    """The problem with its samples at the end of the statement."""
    return replace(problem, statement=f"{problem.statement}{SAMPLES}{samples_text(problem)}\n")


def samples_text(problem: Problem) -> str:
    """Inputs and outputs of the samples in one line: `2 1 / 4 5 = 9; 1 3 / 7 = 2`."""
    line, output, following = SIGNS
    return following.join(
        f"{test.input.rstrip().replace(chr(10), line)}{output}{test.output.rstrip()}"
        for test in problem.tests
        if test.sample
    )
