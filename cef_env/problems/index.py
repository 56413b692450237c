"""What is in a file of records, found in one pass and kept in the user's cache.

An index holds for each problem where its record starts, its id, how many tests it has of each length, its
difficulty and date; and how many records were left out and why. It is made again when the file or the loader
changes, and when it is damaged. Writing is atomic and a cache that cannot be written only costs time. Holds
no test: one record is in memory at a time.
"""

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import Any

from cef_env.errors import UserError
from cef_env.files import cache_folder, write_atomic
from cef_env.problems.fields import Record, Skip
from cef_env.problems.problem_set import Outline
from cef_env.problems.records import RecordFile
from cef_env.problems.types import Problem

VERSION = 1
"""Of the layout of index files."""

MAX_ID_CHARACTERS = 1000
"""Ids are printed, in lists and messages."""

Progress = Callable[[int, int, str], None]
"""(done, total, note): mebibytes of a source that were gone through."""


class BrokenRecordError(UserError):
    """A record cannot be read; `skip_bad` goes on without it."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A problem, and what the format knows beside it."""

    problem: Problem
    date: str | None = None
    notes: dict[str, int] = field(default_factory=dict)
    """What was left out of this problem: reason -> how often."""


@dataclass(frozen=True, slots=True)
class Format:
    """How the records of one data set become problems."""

    name: str
    version: int
    """Raise it when the same record could become another problem."""
    parse: Callable[[Record, int], Parsed]
    """(record, its line or row) -> problem. Raises `Skip` for what is left out by design and `UserError` for
    what is broken."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One problem of a file."""

    start: int
    number: int
    """Line or row, for people."""
    id: str
    counts: tuple[tuple[int, int], ...]
    characters: int
    difficulty: str | None
    date: str | None
    notes: dict[str, int]

    @property
    def outline(self) -> Outline:
        return Outline(self.counts, self.characters, self.difficulty, self.date)


@dataclass
class Index:
    """What is in one file."""

    entries: list[Entry] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    """Messages of the records that are broken."""


def index_of(file: RecordFile, form: Format, skip_bad: bool, progress: Progress | None = None) -> Index:
    """The index of a file, from the cache or from one pass over the file.

    Raises `BrokenRecordError` at the first broken record unless `skip_bad`.
    """
    stamp = file.stamp()
    index = _load(file, form, stamp)
    if index is None:
        index = _build(file, form, skip_bad, progress)
        _store(file, form, stamp, index)
    if index.bad and not skip_bad:
        raise BrokenRecordError(index.bad[0])
    return index


def _build(file: RecordFile, form: Format, skip_bad: bool, progress: Progress | None) -> Index:
    index = Index()
    total = max(1, file.size() >> 20)
    try:
        for start, number, data, done in file.scan():
            if progress is not None:
                progress(min(total, done >> 20), total, f"{file.path.name}: {len(index.entries)} problems")
            where = file.where(number)
            try:
                if isinstance(data, UserError):
                    raise data
                index.entries.append(_entry(start, number, form.parse(Record(data, where), number)))
            except Skip as skip:
                index.skipped[str(skip)] += 1
            except UserError as error:
                message = str(error) if where in str(error) else f"{where}: {error}"
                if not skip_bad:
                    raise BrokenRecordError(message) from error
                index.bad.append(message)
    except OSError as error:
        raise UserError(f"{file.path}: {error.strerror}") from error
    return index


def _entry(start: int, number: int, parsed: Parsed) -> Entry:
    length = len(parsed.problem.id)
    if length > MAX_ID_CHARACTERS:
        raise UserError(f"field id: has {length} characters; at most {MAX_ID_CHARACTERS} are possible")
    outline = Outline.of(parsed.problem)
    about = outline.counts, outline.characters, outline.difficulty, parsed.date
    return Entry(start, number, parsed.problem.id, *about, parsed.notes)


def _cache_path(file: RecordFile, form: Format) -> Any:
    key = hashlib.sha256(f"{file.path.absolute()}\0{form.name}".encode("utf-8", "surrogateescape"))
    return cache_folder("index") / f"{key.hexdigest()[:40]}.json"


def _header(form: Format, stamp: str) -> list[Any]:
    return [VERSION, form.name, form.version, stamp]


def _load(file: RecordFile, form: Format, stamp: str) -> Index | None:
    """The index in the cache; None when there is none that is whole and of this file as it is now."""
    try:
        digest, _, body = _cache_path(file, form).read_bytes().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        header, entries, skipped, bad = json.loads(body)
        if header != _header(form, stamp):
            return None
        made = [Entry(a, b, c, tuple((k, n) for k, n in counts), *rest) for a, b, c, counts, *rest in entries]
        return Index(made, Counter(skipped), bad)
    except (OSError, ValueError, TypeError):
        return None


def _store(file: RecordFile, form: Format, stamp: str, index: Index) -> None:
    if file.stamp() != stamp:
        raise UserError(f"{file.path}: the file changed while it was read; load it again")
    rows = [astuple(entry) for entry in index.entries]
    body = json.dumps([_header(form, stamp), rows, index.skipped, index.bad], separators=(",", ":")).encode()
    path = _cache_path(file, form)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
