"""Keeps samples on disk so that a sweep can be killed at any moment and lose at most the chunks in flight.

The file is append-only JSON lines. A chunk is written by one `write` and one `fsync`: its samples, then a
commit line with the chunk's key and a checksum. Lines after the last commit are what a kill left; they
are dropped when the store is opened, and the chunk is not in `done`, so it is drawn again. Reading streams:
a million samples are never in memory at once. Does *not* know how samples are drawn (with a seed derived
from the chunk the second draw equals the first) nor which chunks there should be (see `plan.py`).

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
from cef_env.eval.records import Member, Sample

Cell = tuple[str, Member, str, int]
"""(split, member, problem, index): what identifies a sample."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of work and of resuming: answers `start` to `stop - 1` to each of some problems."""

    split: str
    alpha: float | None
    problem_ids: tuple[str, ...]
    start: int
    stop: int
    label: str = ""

    @property
    def member(self) -> Member:
        return Member(self.alpha, self.label)

    @property
    def size(self) -> int:
        """Number of samples when it is complete."""
        return len(self.problem_ids) * (self.stop - self.start)

    @property
    def cells(self) -> set[Cell]:
        """Every sample that the chunk holds when it is complete."""
        member = self.member
        return {(self.split, member, p, i) for p in self.problem_ids for i in range(self.start, self.stop)}

    @property
    def seed(self) -> int:
        """A 32-bit seed that depends on nothing but the chunk: the same work is drawn the same way."""
        parts = [self.split, self.alpha, self.problem_ids, self.start, self.stop]
        return zlib.crc32(json.dumps([*parts, self.label] if self.label else parts).encode())

    def to_json(self) -> dict[str, Any]:
        row = {
            "split": self.split, "alpha": self.alpha, "problem_ids": self.problem_ids,
            "start": self.start, "stop": self.stop,
        }  # fmt: skip
        return row | {"label": self.label} if self.label else row

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Chunk":
        return cls(**{**data, "problem_ids": tuple(data["problem_ids"])})


def plan_chunks(
    split: str,
    member: float | Member,
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
    who = member if isinstance(member, Member) else Member(float(member))
    return [
        Chunk(split, who.alpha, tuple(problem_ids[at : at + problems_per_chunk]), start, stop, who.label)
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
        self._done: set[Chunk] = set()
        self._ranges: dict[tuple[str, Member, str], list[tuple[int, int]]] = {}
        end = 0
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for chunk, _, end in committed(self.path):  # noqa: B007 - the last one counts
                self._hold(chunk)
        except BlockingIOError:
            self._file.close()
            raise UserError(
                f"{self.path}: another process is writing it; wait for it or use another file"
            ) from None
        except UserError:
            self._file.close()
            raise
        if end < self.path.stat().st_size:
            os.ftruncate(self._file.fileno(), end)
            os.fsync(self._file.fileno())

    @property
    def done(self) -> frozenset[Chunk]:
        """The chunks that are complete and on disk."""
        return frozenset(self._done)

    @property
    def samples(self) -> list[Sample]:
        """Every sample of the complete chunks, in the order of the file."""
        return list(iter_samples(self.path))

    def append(self, chunk: Chunk, samples: Sequence[Sample]) -> None:
        """Write a complete chunk; it is on disk when this returns.

        Raises `UserError` unless `samples` are exactly the cells of `chunk` and none of them is held yet.
        """
        wanted = chunk.cells
        cells = {(s.split, s.member, s.problem_id, s.index) for s in samples}
        if cells != wanted or len(cells) != len(samples):
            raise UserError(
                f"chunk {chunk.split!r} {chunk.member.name} needs {len(wanted)} distinct samples, "
                f"got {len(samples)} of which {len(cells & wanted)} belong to it"
            )
        taken = overlap(self._ranges, chunk)
        if taken:
            raise UserError(f"{self.path}: already holds {taken}; skip the chunks in `done`")
        data = encode(chunk, samples)
        end = self.path.stat().st_size
        try:
            if self._file.write(data) != len(data):
                raise UserError(f"{self.path}: the disk is full; free some space and run again")
            os.fsync(self._file.fileno())
        except (OSError, UserError):
            # So that a caller who goes on does not append to half a chunk.
            os.ftruncate(self._file.fileno(), end)
            raise
        self._hold(chunk)

    def _hold(self, chunk: Chunk) -> None:
        self._done.add(chunk)
        for problem in chunk.problem_ids:
            key = (chunk.split, chunk.member, problem)
            self._ranges.setdefault(key, []).append((chunk.start, chunk.stop))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "SampleStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def overlap(ranges: dict[tuple[str, Member, str], list[tuple[int, int]]], chunk: Chunk) -> str:
    """Names a sample of `chunk` that `ranges` hold already; empty if there is none."""
    for problem in chunk.problem_ids:
        for start, stop in ranges.get((chunk.split, chunk.member, problem), ()):
            if start < chunk.stop and chunk.start < stop:
                return f"{(chunk.split, chunk.member.name, problem, max(start, chunk.start))}"
    return ""


def read_samples(path: str | os.PathLike[str]) -> list[Sample]:
    """Samples of the complete chunks, without locking or changing the file: fit for a sweep still running."""
    return list(iter_samples(path))


def iter_samples(path: str | os.PathLike[str]) -> Iterator[Sample]:
    """As `read_samples`, one at a time."""
    for _, rows, _ in committed(Path(path)):
        yield from map(Sample.from_json, rows())


def encode(chunk: Chunk, samples: Sequence[Sample]) -> bytes:
    """The lines of a complete chunk."""
    return with_commit(chunk, b"".join(_line(sample.to_json()) for sample in samples))


def with_commit(chunk: Chunk, body: bytes) -> bytes:
    """The lines of its samples, and the line that makes them count."""
    return body + _line({"commit": chunk.to_json(), "crc32": zlib.crc32(body)})


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"


class Rows:
    """The samples of one chunk as they are in the file, parsed when asked for."""

    def __init__(self, path: Path, at: int, lines: list[bytes]) -> None:
        self._path, self._at, self._lines = path, at, lines

    @property
    def raw(self) -> bytes:
        """The lines as they are."""
        return b"".join(self._lines)

    def __call__(self) -> list[dict[str, Any]]:
        try:
            rows: list[dict[str, Any]] = json.loads(b"[" + b",".join(self._lines) + b"]")
        except (ValueError, RecursionError) as error:
            raise _damaged(self._path, self._at, str(error)) from None
        return rows


def committed(path: Path) -> Iterator[tuple[Chunk, Rows, int]]:
    """(chunk, its samples, offset after its commit) of every complete chunk, in the order of the file.

    Raises `UserError` when there is no file, or at the first chunk that is damaged.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; draw samples first")
    pending: list[bytes] = []
    good = end = 0
    with path.open("rb") as stream:
        for line in stream:
            end += len(line)
            if not line.endswith(b"\n"):
                return
            if not line.startswith(b'{"commit":'):
                pending.append(line)
                continue
            try:
                commit = json.loads(line)
                chunk, checksum = Chunk.from_json(commit["commit"]), commit["crc32"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise _damaged(path, good, str(error)) from None
            if zlib.crc32(b"".join(pending)) != checksum:
                raise UserError(
                    f"{path}: damaged after byte {good} (checksum differs); restore it from a copy"
                )
            yield chunk, Rows(path, good, pending), end
            pending, good = [], end


def _damaged(path: Path, at: int, why: str) -> UserError:
    return UserError(f"{path}: damaged at byte {at} ({why}); restore it from a copy")
