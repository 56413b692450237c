"""Counts as a flat table for other tools: a row per split, member and problem. Command: `cef eval export`."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cef_env.eval.counts import CAUSES, OUTCOMES, Tables
from cef_env.eval.parquet import arrow
from cef_env.files import write_atomic

COLUMNS = (
    "split", "member", "alpha", "problem_id", "difficulty", "answers",
    *map(str, OUTCOMES), *map(str, CAUSES), "does_not_compile", "tokens",
)  # fmt: skip


def rows(tables: Tables) -> Iterator[dict[str, Any]]:
    """Rows with the keys `COLUMNS`; `alpha` is None for controls."""
    for split, counts in tables.items():
        for a, member in enumerate(counts.members):
            for p, problem in enumerate(counts.problem_ids):
                numbers = (
                    counts.outcomes[a, p].sum(), *counts.outcomes[a, p], *counts.causes[a, p],
                    counts.uncompiled[a, p], counts.tokens[a, p],
                )  # fmt: skip
                names = split, member.name, member.alpha, problem, counts.difficulties[p]
                yield dict(zip(COLUMNS, (*names, *map(int, numbers)), strict=True))


def write_csv(tables: Tables, path: Path) -> None:
    """An empty field where there is no alpha or difficulty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(tables))
    write_atomic(path, text.getvalue())


def write_parquet(tables: Tables, path: Path) -> None:
    """Needs pyarrow."""
    pyarrow, parquet = arrow()
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows(tables))), sink)
    write_atomic(path, sink.getvalue().to_pybytes())
