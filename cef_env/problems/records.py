"""Files of records: JSON lines, Parquet, and the Arrow files of the Hugging Face `datasets` cache.

Goes through a file in order with one record in memory at a time, and reads one record again by the place
where it was found. Does not know what a record means.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from cef_env.errors import UserError
from cef_env.problems.fields import json_reason

MAX_LINE_BYTES = 512 << 20
"""A longer line is refused rather than read into memory."""
BATCH_BYTES = 8 << 20
"""Rows are read from Parquet in batches of about this size, of at least one row."""

Scanned = tuple[int, int, "dict[str, Any] | UserError", int]
"""(where it starts, line or row for people, record or what is wrong with it, bytes gone through)."""


class RecordFile(Protocol):
    """What the index needs of a file."""

    path: Path

    def stamp(self) -> str:
        """Changes when the content does."""
        ...

    def size(self) -> int: ...

    def where(self, number: int) -> str:
        """File and line or row, for messages."""
        ...

    def scan(self) -> Iterator[Scanned]: ...

    def fetch(self, start: int, number: int) -> dict[str, Any]: ...


def open_records(path: Path) -> RecordFile:
    """The reader of a file, by its name; `UserError` for a name that says nothing."""
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".json", ".ndjson"):
        return JsonLines(path)
    if suffix in (".parquet", ".arrow"):
        _require_pyarrow(path)
        from cef_env.problems.arrow_records import ArrowRows, ParquetRows

        return ParquetRows(path) if suffix == ".parquet" else ArrowRows(path)
    raise UserError(f"{path}: the name of a data file must end in .jsonl, .parquet or .arrow")


def _require_pyarrow(path: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UserError(
            f'{path}: reading this file needs pyarrow; pip install "cef-env[problems]"'
        ) from error


def stamp_of(path: Path) -> str:
    """Size and time of the last change; `UserError` when the file cannot be looked at."""
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give the path of an existing file") from error
    return f"{status.st_size}:{status.st_mtime_ns}"


class LocalFile:
    """What all files of records have in common."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> str:
        return stamp_of(self.path)

    def size(self) -> int:
        return self.path.stat().st_size

    def where(self, number: int) -> str:
        return f"{self.path} {self.unit} {number}"


class JsonLines(LocalFile):
    """One JSON object a line; blank lines are passed over."""

    def where(self, number: int) -> str:
        return f"{self.path}:{number}"

    def scan(self) -> Iterator[Scanned]:
        offset = number = 0
        with self.path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                number += 1
                start, offset = offset, offset + len(line)
                if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                    where = self.where(number)
                    error = UserError(f"{where}: the line is longer than {MAX_LINE_BYTES >> 20} MiB")
                    while line and not line.endswith(b"\n"):
                        line = file.readline(1 << 20)
                        offset += len(line)
                    yield start, number, error, offset
                elif line.strip():
                    try:
                        yield start, number, self._parse(line, number), offset
                    except UserError as error:
                        yield start, number, error, offset

    def fetch(self, start: int, number: int) -> dict[str, Any]:
        with self.path.open("rb") as file:
            file.seek(start)
            return self._parse(file.readline(MAX_LINE_BYTES), number)

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        where = self.where(number)
        try:
            data = json.loads(line)
        except RecursionError as error:
            raise UserError(f"{where}: not a problem: JSON nested too deeply") from error
        except ValueError as error:
            whole = line.endswith(b"\n") or not isinstance(error, json.JSONDecodeError)
            cut = "" if whole else "; the file ends in it: was it cut off?"
            raise UserError(f"{where}: not JSON ({json_reason(error)}){cut}") from error
        if not isinstance(data, dict):
            raise UserError(f"{where}: the line must be a JSON object, not {type(data).__name__}")
        return data
