"""From the folder of a sweep to counts: everything that was planned is there, or an error says what is not.

Reads `samples.jsonl`, or `samples.parquet` once `compact` has replaced it (see `parquet.py`). Streams: a
million samples take memory for the counts only.

    tables = read_tables("runs/sweep")
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.eval.counts import Counts, Tally
from cef_env.eval.parquet import parquet_blocks, tally_parquet, write_parquet
from cef_env.eval.plan import PARQUET, SAMPLES, Plan, read_plan
from cef_env.eval.records import Sample
from cef_env.eval.store import Chunk, committed
from cef_env.files import readable


def read_tables(folder: str | os.PathLike[str], partial: bool = False) -> dict[str, Counts]:
    """Counts by split of a sweep.

    Raises `UserError` when planned chunks are missing, unless `partial` (then of what is there: fit for a
    look at a sweep that is still running).
    """
    folder = Path(folder)
    plan = read_plan(folder)
    tally = Tally()
    if (folder / PARQUET).is_file():
        tally_parquet(folder / PARQUET, plan, tally)
    else:
        with readable(folder / SAMPLES):
            for rows in _blocks(folder, plan, partial):
                for row in rows:
                    tally.add(row)
    return tally.tables()


def iter_folder(folder: Path) -> Iterator[Sample]:
    """Every sample of a complete sweep, one at a time."""
    plan = read_plan(folder)
    compacted = (folder / PARQUET).is_file()
    blocks = parquet_blocks(folder / PARQUET, plan) if compacted else _blocks(folder, plan, partial=False)
    for rows in blocks:
        with readable(folder):
            samples = list(map(Sample.from_json, rows))
        yield from samples


def _blocks(folder: Path, plan: Plan, partial: bool) -> Iterator[list[dict[str, Any]]]:
    """The rows of a sweep, a chunk at a time."""
    done: set[Chunk] = set()
    if (folder / SAMPLES).is_file() or not partial:
        for chunk, rows, _ in committed(folder / SAMPLES):
            done.add(chunk)
            yield rows()
    planned = set(plan.chunks())
    if done - planned:
        name = _name(_first(done - planned))
        raise UserError(f"{folder / SAMPLES}: holds {name}, which is not planned; restore it from a copy")
    if not partial:
        require_complete(folder, planned - done, len(planned))


def require_complete(folder: Path, missing: set[Chunk], planned: int) -> None:
    """`UserError` when chunks are missing."""
    if missing:
        raise UserError(
            f"{folder / SAMPLES}: {len(missing)} of {planned} planned chunks are missing, the first being "
            f"{_name(_first(missing))}; run the same command again to draw them"
        )


def _first(chunks: set[Chunk]) -> Chunk:
    return min(chunks, key=lambda c: (c.member.order, c.split, c.problem_ids, c.start))


def _name(chunk: Chunk) -> str:
    what = f"answers {chunk.start} to {chunk.stop - 1} of {chunk.member.name}"
    return f"{what} to {chunk.problem_ids[0]!r} of split {chunk.split!r}"


def compact(folder: Path) -> Path:
    """Replace `samples.jsonl` of a complete sweep by `samples.parquet`; returns its path."""
    path = folder / PARQUET
    if (folder / SAMPLES).is_file():
        # Both are there only if a kill came before the last step below.
        path.unlink(missing_ok=True)
        write_parquet(path, _blocks(folder, read_plan(folder), partial=False))
        (folder / SAMPLES).unlink()
    elif not path.is_file():
        raise UserError(f"{folder}: neither {SAMPLES} nor {PARQUET}; draw samples first")
    return path
