"""Keeps samples on disk so that a sweep can be killed at any moment and lose at most one chunk.

The file is append-only JSON lines. A chunk is written by one `write` and one `fsync`: its samples, then a
commit line with the chunk's key and a checksum. Lines after the last commit are what a kill left; they
are dropped when the store is opened, and the chunk is not in `done`, so it is drawn again. Does *not*
know how samples are drawn: with a seed derived from the chunk the second draw equals the first.

    with SampleStore("samples.jsonl") as store:
        for chunk in plan_chunks("hard", alpha, problem_ids, samples=50):
            if chunk not in store.done:
                store.append(chunk, draw(chunk))
"""

import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from cef_env.errors import UserError
from cef_env.eval.records import Sample


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of work and of resuming: answers `start` to `stop - 1` to each of some problems."""

    split: str
    alpha: float
    problem_ids: tuple[str, ...]
    start: int
    stop: int

    @property
    def cells(self) -> set[tuple[str, float, str, int]]:
        """(split, alpha, problem, index) of every sample that the chunk holds when it is complete."""
        return {
            (self.split, self.alpha, p, i) for p in self.problem_ids for i in range(self.start, self.stop)
        }

    @property
    def seed(self) -> int:
        """A 32-bit seed that depends on nothing but the chunk: the same work is drawn the same way."""
        text = json.dumps([self.split, self.alpha, self.problem_ids, self.start, self.stop])
        return zlib.crc32(text.encode())


def plan_chunks(
    split: str,
    alpha: float,
    problem_ids: Sequence[str],
    samples: int,
    problems_per_chunk: int = 16,
    samples_per_chunk: int = 25,
) -> list[Chunk]:
    """Cut `samples` answers to each problem into chunks, in a fixed order."""
    if samples < 1 or problems_per_chunk < 1 or samples_per_chunk < 1:
        raise UserError("samples, problems_per_chunk and samples_per_chunk must be at least 1")
    if len(set(problem_ids)) != len(problem_ids):
        raise UserError(f"split {split!r} lists a problem twice; give each problem one id")
    return [
        Chunk(split, float(alpha), tuple(problem_ids[at : at + problems_per_chunk]), start, stop)
        for at in range(0, len(problem_ids), problems_per_chunk)
        for start in range(0, samples, samples_per_chunk)
        for stop in [min(start + samples_per_chunk, samples)]
    ]


class SampleStore:
    """An append-only file of samples, held by one process at a time. Use it as a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open or create `path`, lock it, and drop what an interrupted write left.

        Raises `UserError` when another process holds it or when it is damaged before its last commit.
        """
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(self.path, "a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UserError(
                f"{self.path}: another process is writing it; wait for it or use another file"
            ) from None
        try:
            self._done, self._samples, end = _parse(self.path)
        except UserError:
            self._file.close()
            raise
        if end < self.path.stat().st_size:
            os.ftruncate(self._file.fileno(), end)
            os.fsync(self._file.fileno())
        self._cells = set[tuple[str, float, str, int]]().union(*(chunk.cells for chunk in self._done))

    @property
    def done(self) -> frozenset[Chunk]:
        """The chunks that are complete and on disk."""
        return frozenset(self._done)

    @property
    def samples(self) -> list[Sample]:
        """Every sample of the complete chunks, in the order of the file."""
        return list(self._samples)

    def append(self, chunk: Chunk, samples: Sequence[Sample]) -> None:
        """Write a complete chunk; it is on disk when this returns.

        Raises `UserError` unless `samples` are exactly the cells of `chunk` and none of them is held yet.
        """
        cells = {(s.split, s.alpha, s.problem_id, s.index) for s in samples}
        if cells != chunk.cells or len(cells) != len(samples):
            raise UserError(
                f"chunk {chunk.split!r} alpha {chunk.alpha:g} needs {len(chunk.cells)} distinct samples, "
                f"got {len(samples)} of which {len(cells & chunk.cells)} belong to it"
            )
        taken = cells & self._cells
        if taken:
            raise UserError(f"{self.path}: already holds {min(taken)}; skip the chunks in `done`")
        body = b"".join(_line(sample.to_json()) for sample in samples)
        commit = {
            "commit": {
                "split": chunk.split, "alpha": chunk.alpha, "problem_ids": chunk.problem_ids,
                "start": chunk.start, "stop": chunk.stop,
            },
            "crc32": zlib.crc32(body),
        }  # fmt: skip
        end = self.path.stat().st_size
        data = body + _line(commit)
        try:
            if self._file.write(data) != len(data):
                raise UserError(f"{self.path}: the disk is full; free some space and run again")
            os.fsync(self._file.fileno())
        except (OSError, UserError):
            os.ftruncate(
                self._file.fileno(), end
            )  # so that a caller who goes on does not append to half a chunk
            raise
        self._done.add(chunk)
        self._samples.extend(samples)
        self._cells |= cells

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "SampleStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_samples(path: str | os.PathLike[str]) -> list[Sample]:
    """Samples of the complete chunks, without locking or changing the file: fit for a sweep still running."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file; draw samples first")
    return _parse(path)[1]


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset after the line, line) of every line that ends with a newline."""
    end = 0
    with path.open("rb") as stream:
        for line in stream:
            end += len(line)
            if line.endswith(b"\n"):
                yield end, line


def _parse(path: Path) -> tuple[set[Chunk], list[Sample], int]:
    """Complete chunks, their samples, and the offset just after the last commit."""
    done: set[Chunk] = set()
    samples: list[Sample] = []
    pending: list[bytes] = []
    good = 0
    for end, line in _lines(path):
        if not line.startswith(b'{"commit":'):
            pending.append(line)
            continue
        try:
            commit = json.loads(line)
            chunk = Chunk(**{**commit["commit"], "problem_ids": tuple(commit["commit"]["problem_ids"])})
            intact = zlib.crc32(b"".join(pending)) == commit["crc32"]
            rows = [Sample.from_json(json.loads(row)) for row in pending] if intact else []
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: damaged at byte {good} ({error}); restore it from a copy") from None
        if not intact:
            raise UserError(f"{path}: damaged after byte {good} (checksum differs); restore it from a copy")
        done.add(chunk)
        samples.extend(rows)
        pending, good = [], end
    return done, samples, good
