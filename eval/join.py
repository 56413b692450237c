"""Joins the shards of one sweep into the folder that one process would have made, byte for byte.

Shards are folders, drawn by several processes or machines (`cef eval --shard i/n`). Refuses shards of
different sweeps, a shard that is missing, given twice or not complete: each by name. Command:
`cef eval join OUT SHARD...`
"""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from io import BufferedWriter
from pathlib import Path

from cef_env.errors import UserError
from cef_env.eval.plan import FILE, SAMPLES, Plan, read_plan, same_sweep
from cef_env.eval.programs import PROGRAMS, Program, ProgramStore, read_judgements, read_programs
from cef_env.eval.store import Chunk, committed, with_commit
from cef_env.eval.tables import require_complete
from cef_env.files import sync_folder, write_json


def shard_folder(out: Path, shard: tuple[int, int] | None) -> Path:
    """Where a shard of the sweep in `out` lies."""
    return out if shard is None else out / f"shard-{shard[0]}-of-{shard[1]}"


def join(out: Path, shards: Sequence[Path], progress: Callable[[int, int, str], None]) -> Plan:
    """Writes plan, samples, programs and verdicts of the whole sweep into `out`; returns the plan."""
    folders = _in_order(list(shards) or sorted(out.glob("shard-*-of-*")), out)
    whole = replace(read_plan(folders[0]), shard=None)
    chunks = list(whole.all_chunks())
    total = sum(chunk.size for chunk in chunks)
    for i, folder in enumerate(folders):
        planned = chunks[i :: len(folders)]
        held = [chunk for chunk, _, _ in committed(folder / SAMPLES)]
        require_complete(folder, set(planned) - set(held), len(planned))
        if held != planned:
            raise UserError(
                f"{folder / SAMPLES}: holds samples of another shard, twice or in another order; "
                "restore it from a copy"
            )
    out.mkdir(parents=True, exist_ok=True)
    temporary = out / f".{SAMPLES}.tmp"
    with temporary.open("wb") as stream:
        _interleave(stream, folders, total, progress)
        stream.flush()
        os.fsync(stream.fileno())
    with closing(ProgramStore(out)) as programs:
        _programs(folders, chunks, programs)
        for folder in folders:
            programs.append({}, list(read_judgements(folder)))
    os.replace(temporary, out / SAMPLES)
    sync_folder(out)
    write_json(out / FILE, whole.to_json())
    return whole


def _interleave(
    stream: BufferedWriter, folders: list[Path], total: int, progress: Callable[[int, int, str], None]
) -> None:
    """Chunks of all shards in the order of the plan: each shard has them in this order already."""
    files = [committed(folder / SAMPLES) for folder in folders]
    done = turn = 0
    while done < total:
        chunk, rows, _ = next(files[turn % len(files)])
        stream.write(with_commit(chunk, rows.raw))
        done += chunk.size
        turn += 1
        progress(done, total, "")


def _programs(folders: list[Path], chunks: list[Chunk], programs: ProgramStore) -> None:
    """Keeps programs in the order of the samples that name them, as one process does."""
    files = [committed(folder / SAMPLES) for folder in folders]
    texts = [read_programs(folder) for folder in folders]
    waiting: list[dict[str, Program]] = [{} for _ in folders]
    seen: list[set[str]] = [set() for _ in folders]
    for turn in range(len(chunks)):
        i = turn % len(folders)
        _, rows, _ = next(files[i])
        wanted = dict.fromkeys(row["program_sha256"] for row in rows() if row["program_sha256"] is not None)
        new = [sha256 for sha256 in wanted if sha256 not in seen[i]]
        seen[i].update(new)
        for sha256 in new:
            while sha256 not in waiting[i]:
                row = next(texts[i], None)
                if row is None:
                    raise UserError(
                        f"{folders[i] / PROGRAMS}: program {sha256} is missing; restore it from a copy"
                    )
                waiting[i][row.sha256] = row
        programs.append({sha256: waiting[i].pop(sha256) for sha256 in new}, [])


def _in_order(folders: list[Path], out: Path) -> list[Path]:
    """Folders by number of shard, after all checks that need no samples."""
    if not folders:
        raise UserError(f"{out} holds no folder shard-i-of-n; name the shards: cef eval join OUT SHARD...")
    if (out / FILE).exists():
        raise UserError(f"{out} holds a sweep already; choose another folder to join into")
    plans = {folder: read_plan(folder) for folder in folders}
    first = folders[0]
    found: dict[int, Path] = {}
    for folder, plan in plans.items():
        if plan.shard is None:
            raise UserError(f"{folder} is a whole sweep, not a shard")
        key = same_sweep(plans[first], plan)
        if key:
            raise UserError(f"{folder} and {first} are of different sweeps (key {key} differs)")
        number, of = plan.shard
        if of != plans[first].shard[1]:  # type: ignore[index]
            raise UserError(
                f"{folder} is shard {number}/{of}, but {first} is one of another number of shards"
            )
        if number in found:
            raise UserError(f"{folder} and {found[number]} are both shard {number}/{of}; give each once")
        found[number] = folder
    of = plans[first].shard[1]  # type: ignore[index]
    missing = [str(i) for i in range(1, of + 1) if i not in found]
    if missing:
        raise UserError(f"shard {', '.join(missing)} of {of} is not given; join needs all of them")
    return [found[i] for i in range(1, of + 1)]
