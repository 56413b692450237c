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
_EPISODE: dict[str, tuple[Any, str]] = {"problem_id": (str, "text"), "sample": (int, "a whole number")}
TRAJECTORY = _EPISODE | {
    "outcome": (str, "text"),
    "reward": (int | float, "a number"),
    "messages": (list, "a list"),
    "info": (dict, "a JSON object"),
    "replies": (list, "a list"),
}
FAULT = _EPISODE | {"reason": (str, "text"), "attempts": (int, "a whole number")}
WAVE: dict[str, tuple[Any, str]] = {"wave": (int, "a whole number")}
"""What each kind of line has: names, types, and the types in words."""


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


def read_row(line: bytes) -> Row:
    """The row of a line: a trajectory, a fault (it has a `reason`) or the end of a wave (`wave`).

    Raises `ValueError`, which says in a few words what is wrong.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("not JSON") from error
    if not isinstance(row, dict):
        raise ValueError("no trajectory: no JSON object")
    kind = FAULT if "reason" in row else WAVE if "wave" in row else TRAJECTORY
    for name, (types, meaning) in kind.items():
        if name not in row:
            raise ValueError(f"no trajectory: {name} is missing")
        if not isinstance(row[name], types) or isinstance(row[name], bool):
            raise ValueError(f"no trajectory: {name} is not {meaning}")
    if kind is TRAJECTORY:
        if row["outcome"] not in list(Outcome):
            raise ValueError("no trajectory: outcome is none that there is")
        for message in row["messages"]:
            said = [message.get("role"), message.get("content")] if isinstance(message, dict) else [None]
            if not all(isinstance(text, str) for text in said):
                raise ValueError("no trajectory: messages are not all role and content")
        if not all(
            isinstance(reply, dict) and isinstance(reply.get("cut"), bool) for reply in row["replies"]
        ):
            raise ValueError("no trajectory: replies do not all say whether they were cut")
    return row


def read_rows(path: Path, faults: bool = False) -> Iterator[Row]:
    """The rows of a file, one after the other; `UserError` names a line that is none.

    In a file that is still being written the last line may be half there: it is left out. Episodes that the
    instrument failed (they have a `reason` and no messages) come only with `faults`.
    """
    with open(path, "rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                row = read_row(line)
            except ValueError as error:
                if not line.endswith(b"\n"):
                    return
                raise UserError(
                    f"{path}, line {number}: {error}; give the trajectories of a rollout"
                ) from error
            if "messages" in row or (faults and "reason" in row):
                yield row
