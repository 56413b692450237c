"""`cef rollout`: an agent plays a whole problem source, and the trajectories are kept."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from cef_env.commands.console import EnvOption, Out, console, errors, parse_options
from cef_env.commands.transcripts import OUTCOMES

FORMS = "scripted:NAME, hf:PATH, vllm:PATH, openai:MODEL@URL or module:attr"

if TYPE_CHECKING:
    from cef_env.agents.record import Summary


def rollout(
    agent: Annotated[str, typer.Option(help=f"{FORMS}.")],
    out: Out,
    env: Annotated[str, typer.Option(help="Environment id.")] = "cef/Reasoning-v0",
    problems: Annotated[str, typer.Option(help="Problem source.")] = "builtin",
    coverage: Annotated[str, typer.Option(help="k, or inf for all tests.")] = "inf",
    samples: Annotated[int, typer.Option(help="Episodes per problem.")] = 1,
    limit: Annotated[int | None, typer.Option(help="Only the first problems.")] = None,
    seed: int = 0,
    env_option: EnvOption = [],  # noqa: B006 - typer copies it
    temperature: Annotated[float | None, typer.Option(help="Of a model's sampling.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Token budget of a model's message.")] = None,
    concurrency: Annotated[int, typer.Option(help="Episodes at once.")] = 16,
    step_timeout: Annotated[float | None, typer.Option(help="Seconds of a step; over it is a fault.")] = None,
    episode_timeout: Annotated[float | None, typer.Option(help="Seconds of an episode.")] = None,
    retries: Annotated[int, typer.Option(help="How often a fault is tried again at once.")] = 1,
) -> None:
    """An agent plays every problem of a source; `cef show OUT` reads the trajectories.

    OUT/trajectories.jsonl is written when every episode was tried; a killed run goes on with the same
    command. Faults of the instrument are in OUT/faults.jsonl and in no number (exit status 3); the same
    command tries them again.
    """
    from cef_env.agents.episode import Limits
    from cef_env.agents.record import Settings, record
    from cef_env.ui import Reporter

    sys.path.insert(0, os.getcwd())  # where the module of module:attr usually is
    given = {"temperature": temperature, "max_new_tokens": max_new_tokens}
    settings = Settings(
        env=env,
        agent=agent,
        problems=problems,
        coverage=coverage,
        env_options=parse_options(env_option),
        agent_options={name: value for name, value in given.items() if value is not None},
        samples=samples,
        limit=limit,
        seed=seed,
    )
    limits = Limits(concurrency, step_timeout, episode_timeout, retries)
    with Reporter(errors).lazy_bar("episodes") as progress:
        summary = record(settings, limits, out, progress)
    _show(summary)
    console.print(f"Trajectories: {escape(str(out / 'trajectories.jsonl'))}", soft_wrap=True)
    if summary.faults:
        errors.print(
            f"cef: the instrument failed {summary.faults} episodes, see {escape(str(out / 'faults.jsonl'))}; "
            "the same command tries them again",
            soft_wrap=True,
            highlight=False,
        )
        raise typer.Exit(3)


def _show(summary: "Summary") -> None:
    total = sum(summary.outcomes.values())
    table = Table("outcome", "episodes", "share")
    for column in table.columns[1:]:
        column.justify = "right"
    for outcome, count in summary.outcomes.items():
        table.add_row(f"[{OUTCOMES[outcome]}]{outcome}[/]", f"{count:,}", f"{count / total:.1%}")
    if total:
        console.print(table)
    numbers = f": mean reward {summary.reward:.3f}, {summary.turns:.1f} messages each" if total else ""
    console.print(f"{total:,} episodes{numbers}", highlight=False)
    if summary.dropped:
        errors.print(f"left out: {summary.dropped} problems that this setting cannot ask at this coverage")
