"""The answers that a report holds, for reading one by one: which are chosen, and how they are packed.

A page cannot hold a million programs. A fixed rule chooses: of every problem, alpha and outcome the first
answer, then the second, and so on up to `MOST`, problem by problem in the order of the page, until the next
would exceed the budget. Nothing is chosen by what it says. Does not judge.
"""

import base64
import bisect
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cef_env.eval.counts import OUTCOMES, Counts
from cef_env.eval.programs import read_judgements, read_programs
from cef_env.eval.records import Member, Sample
from cef_env.eval.tables import iter_folder
from cef_env.judge.types import Outcome, TestResult, Verdict
from cef_env.problems import Problem

MOST = 3
"""Answers of one problem, alpha and outcome."""
BUDGET = 10_000_000
"""Characters of packed answers in a page: with figures and tables the page stays under 15 MB."""
LONGEST = 20_000
"""Characters of a program or statement that are kept; the rest is cut, and the page says so."""
VERDICTS = tuple(Verdict)
"""A verdict is packed as its place in here."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One judged answer with what a person reads of it."""

    sample: Sample
    program: str | None = None
    """None where no program could be extracted, or its text was not kept."""
    tests: tuple[TestResult, ...] = ()
    """Ascending length; empty where they were not kept."""
    compile_error: str = ""
    """What the compiler said."""


@dataclass(frozen=True)
class Archive:
    """Packed answers."""

    blocks: Mapping[tuple[int, int], Sequence[str]]
    """(place of the split, of the problem) -> base64 of deflated JSON: the problem, then its answers."""
    held: int
    total: int


Cell = tuple[str, str, Member, Outcome]


def choose(samples: Iterable[Sample], tables: Sequence[Counts]) -> list[Sample]:
    """Of every problem, member and outcome of `tables` the first `MOST` samples by index."""
    wanted = {(t.split, p, m) for t in tables for p in t.problem_ids for m in t.members}
    cells: dict[Cell, list[Sample]] = {}
    for sample in samples:
        place = (sample.split, sample.problem_id, sample.member)
        if place not in wanted:
            continue
        cell = cells.setdefault((*place, sample.outcome), [])
        if len(cell) < MOST or sample.index < cell[-1].index:
            bisect.insort(cell, sample, key=lambda s: s.index)
            del cell[MOST:]
    return [sample for cell in cells.values() for sample in cell]


def read_answers(folder: Path, tables: Sequence[Counts]) -> list[Answer]:
    """What `choose` chooses of a sweep, with programs and verdicts where the folder has them."""
    chosen = choose(iter_folder(folder), tables)
    hashes = {s.program_sha256 for s in chosen if s.program_sha256 is not None}
    programs = {row.sha256: row.program for row in read_programs(folder, hashes)}
    pairs = {(s.problem_id, s.program_sha256) for s in chosen}
    verdicts = {
        (row.problem_id, row.sha256): row
        for row in read_judgements(folder)
        if (row.problem_id, row.sha256) in pairs
    }
    answers = []
    for sample in chosen:
        sha256 = sample.program_sha256 or ""
        row = verdicts.get((sample.problem_id, sha256))
        said = (row.tests, row.compile_error or "") if row else ((), "")
        answers.append(Answer(sample, programs.get(sha256), *said))
    return answers


def pack(
    answers: Iterable[Answer],
    tables: Sequence[Counts],
    problems: Mapping[str, Mapping[str, Problem]],
    budget: int = BUDGET,
) -> Archive:
    """Pack answers to what `choose` chose, up to `budget`. `problems`: by split and id; where one is missing
    the page has no statement."""
    cells: dict[Cell, list[Answer]] = {}
    for answer in answers:
        s = answer.sample
        cells.setdefault((s.split, s.problem_id, s.member, s.outcome), []).append(answer)
    for cell in cells.values():
        cell.sort(key=lambda a: a.sample.index)
    blocks: dict[tuple[int, int], list[str]] = {}
    total, held, left = sum(int(t.n.sum()) for t in tables), 0, budget
    for place, text in _statements(tables, problems):
        if len(text) <= left:
            blocks[place] = [text]
            left -= len(text)
    for rank in range(MOST):
        for place, ranked in _of_rank(cells, tables, rank):
            text = _deflate({"answers": [_row(a, tables[place[0]]) for a in ranked]})
            if len(text) > left:
                return Archive(blocks, held, total)
            blocks.setdefault(place, []).append(text)
            left -= len(text)
            held += len(ranked)
    return Archive(blocks, held, total)


def _statements(
    tables: Sequence[Counts], problems: Mapping[str, Mapping[str, Problem]]
) -> Iterator[tuple[tuple[int, int], str]]:
    for s, counts in enumerate(tables):
        known = problems.get(counts.split, {})
        for p, id_ in enumerate(counts.problem_ids):
            if id_ in known:
                yield (s, p), _deflate(_about(known[id_]))


def _of_rank(
    cells: Mapping[Cell, list[Answer]], tables: Sequence[Counts], rank: int
) -> Iterator[tuple[tuple[int, int], list[Answer]]]:
    for s, counts in enumerate(tables):
        for p, id_ in enumerate(counts.problem_ids):
            here = (cells.get((counts.split, id_, m, o), []) for m in counts.members for o in OUTCOMES)
            ranked = [cell[rank] for cell in here if len(cell) > rank]
            if ranked:
                yield (s, p), ranked


def _about(problem: Problem) -> dict[str, object]:
    return {
        "title": problem.title,
        "statement": _cut(problem.statement),
        "time": problem.time_limit_s,
        "memory": problem.memory_limit_mb,
    }


def _row(answer: Answer, counts: Counts) -> list[object]:
    """member, index, outcome, tokens, program, cause, then per test: verdict, length, CPU ms, MiB; the first
    failure in words."""
    sample, tests = answer.sample, answer.tests
    cause = sample.format_error or answer.compile_error or "does not compile" * sample.compile_error
    failure = next((t.detail for t in tests if t.verdict is not Verdict.ACCEPTED), "")
    return [
        counts.members.index(sample.member),
        sample.index,
        OUTCOMES.index(sample.outcome),
        sample.tokens,
        None if answer.program is None else _cut(answer.program),
        cause[:500],
        [VERDICTS.index(t.verdict) for t in tests],
        [t.length for t in tests],
        [round(1000 * t.cpu_s) for t in tests],
        [round(t.memory_mb, 1) for t in tests],
        failure[:500],
    ]


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n[{len(text) - LONGEST} more characters are not in this page]"


def _deflate(value: object) -> str:
    # Lone surrogates, which a program may hold, are escaped by json and so survive.
    data = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(zlib.compress(data, 6)).decode()
