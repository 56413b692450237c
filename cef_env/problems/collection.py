"""From a path to a `ProblemSet`: which files belong to it, what the user selected, reading on demand.

Works for every format whose problems are records of files or packages in folders; knows none of them.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cef_env.errors import UserError
from cef_env.problems.fields import Record, first_line
from cef_env.problems.index import Entry, Format, Progress, index_of
from cef_env.problems.problem_set import Outline, ProblemSet
from cef_env.problems.records import RecordFile, open_records
from cef_env.problems.types import Problem

DATA_SUFFIXES = (".jsonl", ".parquet", ".arrow")
OPTIONS = ("after", "before", "difficulty", "split", "config", "skip_bad")
"""What may stand behind `?` in every source of this kind."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a source the user wants."""

    after: str = ""
    """First day, inclusive."""
    before: str = ""
    """Last day, inclusive."""
    difficulty: frozenset[str] = frozenset()

    @classmethod
    def of(cls, source: str, options: Mapping[str, str]) -> "Selection":
        for name in ("after", "before"):
            day = options.get(name, "")
            if day and not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
                raise UserError(f"problem source {source!r}: {name}={day!r} must be a day such as 2024-08-01")
        levels = frozenset(filter(None, options.get("difficulty", "").lower().split(",")))
        return cls(options.get("after", ""), options.get("before", ""), levels)

    def lacks_date(self, outline: Outline) -> bool:
        """Whether a window was asked for and this problem has no date to tell."""
        return bool(self.after or self.before) and outline.date is None

    def takes(self, outline: Outline) -> bool:
        if self.difficulty and (outline.difficulty or "").lower() not in self.difficulty:
            return False
        date = outline.date or ""
        return (not self.after or date >= self.after) and (not self.before or date <= self.before)


def data_files(source: str, path: Path, options: Mapping[str, str]) -> list[Path]:
    """The data files of a path, sorted by name: a file, or all in a folder; else those of a hub data set."""
    split = options.get("split", "")
    if path.is_file():
        return [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in DATA_SUFFIXES and file.is_file())
        if not files:
            raise UserError(f"problem source {source!r}: no {', '.join(DATA_SUFFIXES)} file in {path}")
        for name in (options.get("config", ""), split):
            if name:
                files = [file for file in files if _named(file.relative_to(path), name)]
        if not files:
            raise UserError(f"problem source {source!r}: no file of this split or config in {path}")
        return files
    if path.exists():
        raise UserError(f"{path}: neither a file nor a folder")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", str(path)):
        from cef_env.problems.hub import hub_files

        return hub_files(source, str(path), options.get("config") or None, split or None)
    raise UserError(f"problem source {source!r}: {path} does not exist; give a file, a folder or a hub name")


def _named(path: Path, name: str) -> bool:
    """Whether a part of the path is called `name`, as in `train-00000-of-00002.parquet` or `1x/train/...`."""
    return re.search(rf"(?:^|[-_./]){re.escape(name)}(?:[-_./]|$)", str(path)) is not None


def collect(
    source: str,
    files: Sequence[RecordFile | Path],
    form: Format,
    selection: Selection,
    skip_bad: bool = False,
    progress: Progress | None = None,
    remedy: str = "remove one",
) -> ProblemSet:
    """The problems of these files, in order, that the selection takes.

    Args:
        remedy: what to do about an id that occurs twice.
    """
    places: dict[str, tuple[RecordFile, Entry, str]] = {}
    seen: dict[str, str] = {}
    difficulties: set[str] = set()
    skipped: Counter[str] = Counter()
    for item in files:
        file = open_records(item) if isinstance(item, Path) else item
        stamp = file.stamp()
        index = index_of(file, form, skip_bad, progress)
        skipped += index.skipped
        skipped["broken"] += len(index.bad)
        for entry in index.entries:
            where = file.where(entry.number)
            if entry.id in seen:
                if not skip_bad:
                    raise UserError(
                        f"{where}: field id: {entry.id!r} occurs more than once, first in {seen[entry.id]}; "
                        f"{remedy}"
                    )
                skipped["id occurs more than once"] += 1
                continue
            seen[entry.id] = where
            difficulties.add((entry.difficulty or "").lower())
            if selection.lacks_date(entry.outline):
                skipped["no date, but the source asks for a window"] += 1
            elif selection.takes(entry.outline):
                places[entry.id] = file, entry, stamp
                skipped.update(entry.notes)

    if unknown := sorted(selection.difficulty - difficulties):
        known = ", ".join(sorted(difficulties - {""})) or "none"
        raise UserError(
            f"problem source {source!r}: no problem has difficulty={unknown[0]!r}; known: {known}"
        )

    def fetch(id_: str) -> Problem:
        file, entry, stamp = places[id_]
        where = file.where(entry.number)
        changed = UserError(f"{where}: the file changed after it was opened; load it again")
        if file.stamp() != stamp:
            raise changed
        try:
            problem = form.parse(Record(file.fetch(entry.start, entry.number), where), entry.number).problem
        except OSError as error:
            raise UserError(f"{where}: {first_line(error)}") from error
        if problem.id != id_:
            raise changed
        return problem

    return ProblemSet(
        source,
        places,
        fetch,
        smallest_level=lambda id_: places[id_][1].counts[0][0],
        outline=lambda id_: places[id_][1].outline,
        skipped={reason: count for reason, count in skipped.most_common() if count},
    )
