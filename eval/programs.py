"""The texts of the programs of a sweep, once each, and what the judge said of them, test by test.

`programs.jsonl` holds one line per distinct program: sha256, language, text. `verdicts.jsonl` holds one
line per problem and program: outcome and every test that was run. Both are written before the samples that
refer to them, so a sample's program is always there; what is measured (times, memory) is kept out of the
samples, so these are the same when a killed sweep continues.

    for row in read_programs(folder, {sample.program_sha256}): print(row.program)
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.files import readable
from cef_env.judge import JudgeResult, Outcome, TestResult, Verdict

PROGRAMS = "programs.jsonl"
VERDICTS = "verdicts.jsonl"
EXHAUSTIVE = "verdicts.exhaustive.jsonl"
"""As `VERDICTS`, from runs that did not stop at the first failure; see `rules.py`."""


@dataclass(frozen=True, slots=True)
class Program:
    """One distinct program."""

    sha256: str
    program: str
    language: str = "python"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge said of one program on one problem."""

    problem_id: str
    sha256: str
    outcome: Outcome
    tests: tuple[TestResult, ...]
    """Ascending length, up to the first failure unless the run was exhaustive."""
    compile_error: str | None = None

    @classmethod
    def of(cls, sha256: str, result: JudgeResult) -> "Judgement":
        return cls(result.problem_id, sha256, result.outcome, result.tests, result.compile_error)


class JsonLines:
    """An append-only file of JSON lines; a line that a kill cut off is dropped when it is opened."""

    def __init__(self, path: Path, held: Callable[[dict[str, Any]], object]) -> None:
        """Open or create `path`; `held` is called with every row that it has already."""
        self.path = path
        self._file = FileIO(path, "a+")
        end = 0
        with readable(path):
            for size, row in read_lines(path):
                held(row)
                end += size
        if end < path.stat().st_size:
            os.ftruncate(self._file.fileno(), end)

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Write rows; they are on disk when this returns."""
        if not rows:
            return
        data = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)
        end = self.path.stat().st_size
        try:
            if self._file.write(data) != len(data):
                raise UserError(f"{self.path}: the disk is full; free some space and run again")
            os.fsync(self._file.fileno())
        except (OSError, UserError):
            os.ftruncate(self._file.fileno(), end)
            raise

    def close(self) -> None:
        self._file.close()


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(bytes, value) of every complete line; `UserError` where one is not JSON."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield len(line), json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"{path}: line {number} is not JSON ({error}); restore it from a copy"
                ) from None


class ProgramStore:
    """Programs and judgements of a folder, each kept once; for `contextlib.closing`. Not locked: the sample
    store beside it is."""

    def __init__(self, folder: Path) -> None:
        self._known: set[str] = set()
        self._judged: set[tuple[str, str]] = set()
        self._programs = JsonLines(folder / PROGRAMS, lambda row: self._known.add(row["sha256"]))
        self._verdicts = JsonLines(
            folder / VERDICTS, lambda row: self._judged.add((row["problem_id"], row["sha256"]))
        )

    def append(self, programs: Mapping[str, Program], judgements: Collection[Judgement]) -> None:
        """Keep what is new of both, durably."""
        new = {sha: row for sha, row in programs.items() if sha not in self._known}
        self._programs.append([_program_row(row) for row in new.values()])
        self._known.update(new)
        fresh = {(j.problem_id, j.sha256): j for j in judgements}
        rows = [judgement_row(j) for key, j in fresh.items() if key not in self._judged]
        self._verdicts.append(rows)
        self._judged.update(fresh)

    def close(self) -> None:
        self._programs.close()
        self._verdicts.close()


def read_programs(folder: Path, wanted: Collection[str] | None = None) -> Iterator[Program]:
    """Programs of a folder, all or those with the hashes `wanted`; none where none were kept."""
    if (folder / PROGRAMS).is_file():
        for _, row in read_lines(folder / PROGRAMS):
            with readable(folder / PROGRAMS):
                program = Program(**row)
            if wanted is None or program.sha256 in wanted:
                yield program


def read_judgements(folder: Path, file: str = VERDICTS) -> Iterator[Judgement]:
    """Judgements of a folder; none where none were kept."""
    if (folder / file).is_file():
        for _, row in read_lines(folder / file):
            with readable(folder / file):
                tests = tuple(
                    TestResult(length, Verdict(verdict), cpu_s, wall_s, memory_mb, detail)
                    for verdict, length, cpu_s, wall_s, memory_mb, detail in row["tests"]
                )
                judgement = Judgement(**{**row, "outcome": Outcome(row["outcome"]), "tests": tests})
            yield judgement


def _program_row(row: Program) -> dict[str, Any]:
    return {"sha256": row.sha256, "language": row.language, "program": row.program}


def judgement_row(judgement: Judgement) -> dict[str, Any]:
    """One line of `VERDICTS`."""
    return {
        "problem_id": judgement.problem_id,
        "sha256": judgement.sha256,
        "outcome": str(judgement.outcome),
        "compile_error": judgement.compile_error,
        "tests": [
            [str(t.verdict), t.length, round(t.cpu_s, 4), round(t.wall_s, 4), round(t.memory_mb, 2), t.detail]
            for t in judgement.tests
        ],
    }
