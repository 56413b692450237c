"""Trajectories as JSON lines: one object a line, `problem_id` and `sample` first. Does not write files.

for row in read_rows(Path("runs/efficient/trajectories.jsonl")):
    trajectory_of(row).outcome
"""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from cef_env.agents.base import Message, Reply, Trajectory
from cef_env.envs.text import CutText
from cef_env.errors import UserError
from cef_env.judge import Outcome

Row = dict[str, Any]
_KNOWN = {"problem_id", "messages", "reward", "outcome", "info", "replies"}


def row_of(trajectory: Trajectory, sample: int = 0) -> Row:
    """What is kept of an episode: the `sample`-th of its problem.

    The text of a reply is the assistant's message of its turn and is not repeated; `cut` says whether the
    token budget cut it.
    """
    replies = []
    for reply in trajectory.replies:
        numbers = {
            field.name: list(getattr(reply, field.name)) for field in fields(Reply) if field.name != "text"
        }
        replies.append(
            {"cut": isinstance(reply.text, CutText)} | {k: value for k, value in numbers.items() if value}
        )
    more = {
        field.name: getattr(trajectory, field.name)
        for field in fields(Trajectory)
        if field.name not in _KNOWN and getattr(trajectory, field.name) != field.default
    }
    return {
        "problem_id": trajectory.problem_id,
        "sample": sample,
        "outcome": str(trajectory.outcome),
        "reward": trajectory.reward,
        "messages": list(trajectory.messages),
        "info": trajectory.info,
        "replies": replies,
        **more,
    }


def trajectory_of(row: Row) -> Trajectory:
    """The trajectory of a row. Tuples of `info` are lists then, as JSON has no others."""
    messages: list[Message] = row["messages"]
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    replies = []
    for text, reply in zip(said, row["replies"]):
        numbers = {name: tuple(value) for name, value in reply.items() if name != "cut"}
        replies.append(Reply(CutText(text) if reply["cut"] else text, **numbers))
    more = {field.name: row[field.name] for field in fields(Trajectory) if field.name in row.keys() - _KNOWN}
    return Trajectory(
        problem_id=row["problem_id"],
        messages=tuple(messages),
        reward=row["reward"],
        outcome=Outcome(row["outcome"]),
        info=row["info"],
        replies=tuple(replies),
        **more,
    )


def read_rows(path: Path, faults: bool = False) -> Iterator[Row]:
    """The rows of a file, one after the other; `UserError` names a line that is none.

    In a file that is still being written the last line may be half there: it is left out. Episodes that the
    instrument failed (they have a `reason` and no messages) come only with `faults`.
    """
    with open(path, "rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                if not line.endswith(b"\n"):
                    return
                raise UserError(
                    f"{path}, line {number}: not JSON; give the trajectories of a rollout"
                ) from error
            if isinstance(row, dict) and (
                isinstance(row.get("messages"), list) or (faults and "reason" in row)
            ):
                yield row
            elif not isinstance(row, dict) or not row.keys() & {"reason", "wave"}:
                raise UserError(f"{path}, line {number}: no messages; give the trajectories of a rollout")
