"""The answers that a report holds, for reading one by one: which are chosen, and how they are packed.

A page cannot hold a million programs. A fixed rule chooses: of every problem, alpha and outcome the first
answer, then the second, and so on up to `MOST`, problem by problem in the order of the page, until the next
would exceed the budget. Nothing is chosen by what it says. Does not judge and does not read files.
"""

import base64
import bisect
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cef_env.eval.counts import OUTCOMES, Counts
from cef_env.eval.records import Sample
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
    """(place of the split, place of the problem) -> base64 of deflated JSON: the problem, then its answers."""
    held: int
    total: int


Cell = tuple[str, str, float, Outcome]


def choose(samples: Iterable[Sample], tables: Sequence[Counts]) -> list[Sample]:
    """Of every problem, alpha and outcome of `tables` the first `MOST` samples by index; others are left out."""
    wanted = {(t.split, p, a) for t in tables for p in t.problem_ids for a in t.alphas}
    cells: dict[Cell, list[Sample]] = {}
    for sample in samples:
        if (sample.split, sample.problem_id, sample.alpha) not in wanted:
            continue
        cell = cells.setdefault((sample.split, sample.problem_id, sample.alpha, sample.outcome), [])
        if len(cell) < MOST or sample.index < cell[-1].index:
            bisect.insort(cell, sample, key=lambda s: s.index)
            del cell[MOST:]
    return [sample for cell in cells.values() for sample in cell]


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
        cells.setdefault((s.split, s.problem_id, s.alpha, s.outcome), []).append(answer)
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
            here = (cells.get((counts.split, id_, a, o), []) for a in counts.alphas for o in OUTCOMES)
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
    """alpha, index, outcome, tokens, program, cause, then per test: verdict, length, CPU ms, MiB; the first
    failure in words."""
    sample, tests = answer.sample, answer.tests
    failure = next((t.detail for t in tests if t.verdict is not Verdict.ACCEPTED), "")
    return [
        counts.at(sample.alpha),
        sample.index,
        OUTCOMES.index(sample.outcome),
        sample.tokens,
        None if answer.program is None else _cut(answer.program),
        (sample.format_error or answer.compile_error or ("does not compile" if sample.compile_error else ""))[:500],
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
