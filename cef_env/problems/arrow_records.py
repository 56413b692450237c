"""Rows of Parquet and Arrow files (pyarrow), a few at a time. Imported only when such a file is read.

Arrow files are those that the Hugging Face `datasets` library keeps in its cache; they are mapped into
memory, so that a row is found at once. In a Parquet file a row is found by reading its row group up to it;
going on to the next row costs nothing again.
"""

import mmap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cef_env.errors import UserError
from cef_env.problems.fields import first_line
from cef_env.problems.records import BATCH_BYTES, LocalFile, Scanned

READ_BYTES = 1 << 20
"""Column chunks are read in pieces of this size, not whole: one can hold gigabytes."""
RESIDENT_BYTES = 128 << 20
"""A mapped file's pages are given back after about so many bytes of records, so that they do not add up."""

Batches = Iterator[tuple[int, "pa.RecordBatch"]]
"""(number of the first row, rows)."""


class ParquetRows(LocalFile):
    """A Parquet file; `start` is the row's number in the file, from 0; people count from 1."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lock = threading.Lock()
        self._batches: Batches = iter(())
        self._batch: tuple[int, pa.RecordBatch] | None = None
        self._end = 0  # one past the last row of the row group that _batches goes through

    def _open(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.path, buffer_size=READ_BYTES, pre_buffer=False)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UserError(f"{self.path}: not a Parquet file ({first_line(error)})") from error

    def _group(self, file: pq.ParquetFile, group: int, first: int) -> Batches:
        """The batches of one row group, whose first row has the number `first`."""
        about = file.metadata.row_group(group)
        each = about.total_byte_size / max(1, about.num_rows)
        size = max(1, min(256, int(BATCH_BYTES / max(1.0, each))))
        row = first
        try:
            for batch in file.iter_batches(size, row_groups=[group], use_threads=False):
                yield row, batch
                row += batch.num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UserError(f"{self.where(row + 1)}: cannot be read ({first_line(error)})") from error

    def scan(self) -> Iterator[Scanned]:
        file = self._open()
        first, size, total = 0, self.size(), max(1, file.metadata.num_rows)
        for group in range(file.metadata.num_row_groups):
            last = first + file.metadata.row_group(group).num_rows
            try:
                for start, batch in self._group(file, group, first):
                    for position in range(batch.num_rows):
                        row = start + position
                        data = batch.slice(position, 1).to_pylist()[0]
                        yield row, row + 1, data, size * (row + 1) // total
            except UserError as error:  # the rest of this row group cannot be read
                yield first, first + 1, error, size * last // total
            first = last

    def fetch(self, start: int, number: int) -> dict[str, Any]:
        with self._lock:
            if self._batch is None or not self._batch[0] <= start < self._end:
                self._seek(start)
            while self._batch is not None:
                first, batch = self._batch
                if start < first + batch.num_rows:
                    return batch.slice(start - first, 1).to_pylist()[0]
                self._batch = next(self._batches, None)
        raise UserError(f"{self.where(number)}: there is no such row; load the file again")

    def _seek(self, start: int) -> None:
        """To the first batch of the row group that holds row `start`."""
        file = self._open()
        first = 0
        self._batch = None
        for group in range(file.metadata.num_row_groups):
            self._end = first + file.metadata.row_group(group).num_rows
            if start < self._end:
                self._batches = self._group(file, group, first)
                self._batch = next(self._batches, None)
                return
            first = self._end


class ArrowRows(LocalFile):
    """An Arrow file, of the stream or the file format."""

    def _batches(self) -> Iterator[tuple[mmap.mmap, pa.RecordBatch]]:
        try:
            with self.path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            buffer = pa.py_buffer(mapped)
            try:
                batches = iter(pa.ipc.open_stream(buffer))
            except pa.ArrowInvalid:
                reader = pa.ipc.open_file(buffer)
                batches = map(reader.get_batch, range(reader.num_record_batches))
            for batch in batches:
                yield mapped, batch
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UserError(f"{self.path}: not an Arrow file ({first_line(error)})") from error

    def scan(self) -> Iterator[Scanned]:
        row = passed = released = 0
        for mapped, batch in self._batches():
            for position in range(batch.num_rows):
                record = batch.slice(position, 1)
                yield row, row + 1, record.to_pylist()[0], passed
                row += 1
                passed += record.nbytes
                if passed - released > RESIDENT_BYTES:
                    released = passed
                    mapped.madvise(mmap.MADV_DONTNEED)

    def fetch(self, start: int, number: int) -> dict[str, Any]:
        first = 0
        for _, batch in self._batches():
            if start < first + batch.num_rows:
                return batch.slice(start - first, 1).to_pylist()[0]
            first += batch.num_rows
        raise UserError(f"{self.where(number)}: there is no such row; load the file again")
