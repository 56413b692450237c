"""Samples as one parquet file: a tenth of the size of the JSON lines, and counted in a few seconds.

Holds the same rows; written once from a complete sweep, whole or not at all. Needs pyarrow. Does not know
what should be there beyond how many rows (see `tables.py`).
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.eval.counts import Tally, occurs_twice
from cef_env.eval.plan import Plan
from cef_env.files import sync_folder

_ROWS = 1 << 16
_CELL = ["split", "alpha", "label", "problem_id"]
_GROUP = [*_CELL, "outcome", "format_error", "compile_error", "tags", "difficulty"]


def write_parquet(path: Path, blocks: Iterable[list[dict[str, Any]]]) -> None:
    """Write rows in the form of `Sample.to_json`."""
    pyarrow, parquet = arrow()
    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    schema = pyarrow.schema(
        [
            ("split", text), ("alpha", pyarrow.float64()), ("label", text), ("problem_id", text),
            ("index", pyarrow.int32()), ("outcome", text), ("format_error", text),
            ("coverage_reached", pyarrow.int8()), ("program_sha256", pyarrow.string()),
            ("tokens", pyarrow.int64()), ("compile_error", pyarrow.bool_()), ("difficulty", text),
            ("tags", text),
        ]
    )  # fmt: skip
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for rows in _batches(blocks):
                plain = [
                    row | {"label": row.get("label", ""), "tags": json.dumps(list(row["tags"]))}
                    for row in rows
                ]
                writer.write_table(pyarrow.Table.from_pylist(plain, schema))
    except OSError:  # a full disk: do not keep what fills it
        temporary.unlink(missing_ok=True)
        raise
    with temporary.open("rb") as stream:
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def _batches(blocks: Iterable[list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    pending: list[dict[str, Any]] = []
    for rows in blocks:
        pending += rows
        if len(pending) >= _ROWS:
            yield pending
            pending = []
    if pending:
        yield pending


def parquet_blocks(path: Path, plan: Plan) -> Iterator[list[dict[str, Any]]]:
    """The rows that were written, some at a time."""
    pyarrow, parquet = arrow()
    try:
        with parquet.ParquetFile(path) as file:
            _require_all(path, file.metadata.num_rows, plan)
            for batch in file.iter_batches(_ROWS):
                yield [row | {"tags": json.loads(row["tags"])} for row in batch.to_pylist()]
    except pyarrow.ArrowInvalid as error:
        raise _damaged(path, error) from None


def tally_parquet(path: Path, plan: Plan, tally: Tally) -> None:
    """Add all rows to `tally` without making a Python object of each."""
    pyarrow, parquet = arrow()
    try:
        table = parquet.read_table(path, columns=[*_GROUP, "index", "tokens"], memory_map=True)
    except pyarrow.ArrowInvalid as error:
        raise _damaged(path, error) from None
    _require_all(path, table.num_rows, plan)
    texts = [name for name in _GROUP if name not in ("alpha", "compile_error")]
    for name in texts:  # keys of groups must be plain
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(name).cast(pyarrow.string()))
    cells = table.group_by(_CELL).aggregate(
        [("index", "count"), ("index", "count_distinct"), ("index", "min")]
    )
    for row in cells.to_pylist():
        if row["index_count"] != row["index_count_distinct"]:
            raise occurs_twice(row | {"index": row["index_min"]})
    for row in table.group_by(_GROUP).aggregate([("tokens", "count"), ("tokens", "sum")]).to_pylist():
        row["tags"] = json.loads(row["tags"])
        tally.add_group(row, row["tokens_count"], row["tokens_sum"])


def _require_all(path: Path, rows: int, plan: Plan) -> None:
    planned = sum(chunk.size for chunk in plan.chunks())
    if rows != planned:
        raise UserError(f"{path}: holds {rows} samples, {planned} were planned; restore it from a copy")


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(f"{path}: damaged ({error}); restore it from a copy")


def arrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet; `UserError` when they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError("parquet needs pyarrow: pip install 'cef-env[eval]'") from None
    return pyarrow, pyarrow.parquet
