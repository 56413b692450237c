"""`cef play`: a person plays an episode of any setting in the terminal."""

import contextlib
import io
import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from cef_env.commands.console import EnvOption, console, parse_options, plain
from cef_env.commands.transcripts import OUTCOMES, show_content
from cef_env.errors import UserError

if TYPE_CHECKING:
    from cef_env.judge import JudgeResult, Outcome


def play(
    env_id: Annotated[str, typer.Argument(help="For example cef/Agentic-v0.")] = "cef/Reasoning-v0",
    problems: Annotated[str, typer.Option(help="Problem source.")] = "builtin",
    problem: Annotated[str | None, typer.Option(help="Id of the problem; else one is drawn.")] = None,
    coverage: Annotated[str, typer.Option(help="k, or inf for all tests.")] = "inf",
    seed: Annotated[int | None, typer.Option(help="Of the draw.")] = None,
    env_option: EnvOption = [],  # noqa: B006 - typer copies it
) -> None:
    """You are the agent: read a problem, work in the sandbox of the setting, answer."""
    from cef_env.agents.environments import make_env
    from cef_env.problems import load

    if seed is not None and seed < 0:
        raise UserError(f"--seed {seed}: use 0 or more")
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    env = make_env(env_id, load(problems), coverage, parse_options(env_option))
    try:
        stopped = _episode(env_id, env, seed, problem)
    finally:
        env.close()
    if stopped:
        raise typer.Exit(130)


def _episode(env_id: str, env: Any, seed: int | None, problem: str | None) -> bool:
    """Plays and sums up; whether the person interrupted it."""
    from cef_env.commands.person import Leave, Person

    inner = env.unwrapped
    observation, info = env.reset(seed=seed, options=None if problem is None else {"problem_id": problem})
    person = Person(inner, console)
    messages = [{"role": "user", "content": observation}]
    started, reward = time.monotonic(), 0.0
    console.print(Text(plain(f"=== {env_id}: problem {info['problem_id']}"), style="bold"), soft_wrap=True)
    if not hasattr(inner, "max_turns"):
        show_content(console, observation, question=True)
    person.introduce()
    try:
        with person.editing():
            while inner.result is None:
                action = person.ask()
                observation, reward, _, _, info = env.step(action)
                messages.append({"role": "assistant", "content": action})
                if inner.result is None:
                    messages.append({"role": "user", "content": observation})
                    show_content(console, observation)
    except (Leave, KeyboardInterrupt) as event:
        console.print("\nLeft without an answer: no outcome, no reward.")
        return isinstance(event, KeyboardInterrupt)
    row = {"problem_id": info["problem_id"], "messages": messages, "reward": float(reward), "info": info}
    _summary(inner.result, inner.coverage, row, time.monotonic() - started)
    return False


def _summary(result: "JudgeResult", coverage: int | None, row: dict[str, Any], seconds: float) -> None:
    """What came of it, and where to read it again."""
    from cef_env.judge import Outcome, Verdict

    console.print()
    outcome = Text("=== ", style="bold").append(str(result.outcome), style=OUTCOMES[result.outcome])
    console.print(outcome.append(f", reward {row['reward']:g}"))
    passed = sum(test.verdict is Verdict.ACCEPTED for test in result.tests)
    lines = [f"tests        {passed} passed of {len(result.tests)} that were run"]
    if result.failed is not None:
        lines.append(
            f"failed       {result.failed.verdict} on an input of {result.failed.length:,} characters"
        )
    if result.compile_error is not None:
        lines.append(f"compiler     {result.compile_error}")
    if result.outcome is Outcome.FORMAT_ERROR:
        lines.append(f"no program   {result.format_error}")
    else:
        judged = [k for k in result.levels if coverage is None or k <= coverage]
        levels = "  ".join(f"10^{k}: {result.reward(k):g}" for k in judged)
        lines.append(f"R_k under    {levels}   (coverage reached: {result.coverage_reached})")
    turns = sum(message["role"] == "assistant" for message in row["messages"])
    lines.append(f"messages     {turns} in {seconds:.0f} s")
    saved = _keep(row, result.outcome)
    if saved:
        lines.append(f"to read it   cef show {saved}")
    for line in lines:
        console.print(plain(line), markup=False, highlight=False, soft_wrap=True)


def _keep(row: dict[str, Any], outcome: "Outcome") -> str:
    """Where the episode can be read again; nowhere if the cache cannot be written."""
    from cef_env.agents.base import Trajectory
    from cef_env.agents.journal import json_lines
    from cef_env.agents.trajectories import row_of
    from cef_env.files import cache_folder, write_atomic

    path = cache_folder("play") / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.jsonl"
    trajectory = Trajectory(**row | {"messages": tuple(row["messages"]), "outcome": outcome})
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json_lines([row_of(trajectory)]))
        return str(path)
    return ""
