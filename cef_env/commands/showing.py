"""`cef show`: trajectories to read, one in full or a line for each."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cef_env.commands.console import console, errors, plain
from cef_env.commands.transcripts import OUTCOMES, show_episode
from cef_env.errors import UserError

if TYPE_CHECKING:
    from cef_env.agents.trajectories import Row


def show(
    file: Annotated[Path, typer.Argument(help="Trajectories as JSON lines, or the folder of a rollout.")],
    index: Annotated[int | None, typer.Option(help="Position in the file, from 0.")] = None,
    problem: Annotated[str | None, typer.Option(help="Only of this problem.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only with this outcome; also fault.")] = None,
) -> None:
    """Read trajectories: an episode in full if only one is asked for, else a line for each."""
    if outcome is not None and outcome not in OUTCOMES:
        raise UserError(f"--outcome {outcome}: use {', '.join(OUTCOMES)}")
    first: tuple[int, Row] | None = None
    shown = 0
    for position, row in _rows(file):
        if index is not None and position != index:
            continue
        if problem not in (None, row["problem_id"]) or outcome not in (None, row.get("outcome", "fault")):
            continue
        shown += 1
        if shown == 1:
            first = position, row
            continue
        if shown == 2 and first is not None:
            console.print("    #  outcome               reward  messages  characters  problem", style="bold")
            _line(*first)
        _line(position, row)
    if first is None:
        raise UserError(f"{file} has no such episode; `cef show {file}` lists what it has")
    if shown > 1:
        errors.print(f"{shown} episodes; --index N shows one", highlight=False)
    elif "reason" in first[1]:
        _line(*first)
    else:
        show_episode(console, first[1], f"episode {first[0]}")


def _rows(file: Path) -> "Iterator[tuple[int, Row]]":
    """The episodes of a file or of a folder, faults after the others."""
    from cef_env.agents.trajectories import read_rows

    files = [file]
    if file.is_dir():
        files = [file / "trajectories.jsonl", file / "faults.jsonl"]
        if not files[0].exists():
            files = [file / "journal.jsonl"]
    if not files[0].exists():
        raise UserError(f"{files[0]} does not exist; give the trajectories of a rollout, or its folder")
    position = 0
    for path in files:
        for row in read_rows(path, faults=True) if path.exists() else ():
            yield position, row
            position += 1


def _line(position: int, row: "Row") -> None:
    """An episode in one line."""
    fault = "reason" in row
    outcome = "fault" if fault else row["outcome"]
    line = Text.assemble(f"{position:5}  ", (f"{outcome:<21}", OUTCOMES.get(outcome, "")))
    if fault:
        line.append(plain(f" {row['reason']}, {row['attempts']} tries: {row['problem_id']}"))
    else:
        messages = row["messages"]
        turns = sum(message["role"] == "assistant" for message in messages)
        characters = sum(len(message["content"]) for message in messages)
        sample = f" ({row['sample']})" if row.get("sample") else ""
        line.append(f"{row['reward']:>7g}  {turns:>8}  {characters:>10,}  ")
        line.append(plain(row["problem_id"] + sample))
    console.print(line, soft_wrap=True)
