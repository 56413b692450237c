"""Counts of outcomes by member and problem: the one table that every statistic is computed from.

counts = tabulate(samples)["hard"]
counts.rate(Outcome.CORRECT)           # (members, problems)
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.records import Member, Sample
from cef_env.judge.types import FormatErrorCause, Outcome

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
"""Order of the last axis of `Counts.outcomes`."""
CAUSES: tuple[FormatErrorCause, ...] = tuple(FormatErrorCause)
"""Order of the last axis of `Counts.causes`."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counts:
    """One split. Every member has samples of every problem, so that comparisons over members are paired."""

    split: str
    members: tuple[Member, ...]
    """A of them: alphas ascending, then controls."""
    problem_ids: tuple[str, ...]
    """Sorted; P of them."""
    outcomes: Ints
    """Shape (A, P, 4): answers by outcome, in the order of `OUTCOMES`."""
    causes: Ints
    """Shape (A, P, 3): format errors by cause, in the order of `CAUSES`."""
    uncompiled: Ints
    """Shape (A, P): answers whose program does not compile, a part of the correctness failures."""
    tokens: Ints
    """Shape (A, P): tokens over all answers."""
    tags: tuple[tuple[str, ...], ...] = ()
    """Tags of each problem."""
    difficulties: tuple[str | None, ...] = ()
    """Difficulty of each problem, where its source says one."""
    left_out: tuple[Member, ...] = ()
    """Members that some problem has no answer of yet."""

    @property
    def alphas(self) -> tuple[float, ...]:
        """Ascending; those of the first rows."""
        return tuple(m.alpha for m in self.members if m.alpha is not None)

    @property
    def incomplete(self) -> tuple[float, ...]:
        """Alphas that were left out because some problem has no answer yet."""
        return tuple(m.alpha for m in self.left_out if m.alpha is not None)

    @property
    def n(self) -> Ints:
        """Shape (A, P): answers drawn."""
        return self.outcomes.sum(axis=2)

    @property
    def correct(self) -> Ints:
        """Shape (A, P): correct answers."""
        return self.outcomes[:, :, OUTCOMES.index(Outcome.CORRECT)]

    def rate(self, outcome: Outcome) -> Floats:
        """Shape (A, P): share of the answers with this outcome."""
        return self.outcomes[:, :, OUTCOMES.index(outcome)] / self.n

    def cause_rate(self, cause: FormatErrorCause) -> Floats:
        """Shape (A, P): share of all answers that are format errors of this cause."""
        return self.causes[:, :, CAUSES.index(cause)] / self.n

    def at(self, alpha: float) -> int:
        """Row of an alpha; a `UserError` if it was not sampled."""
        for i, value in enumerate(self.alphas):
            if value == alpha:
                return i
        listed = ", ".join(f"{a:g}" for a in self.alphas)
        raise UserError(f"split {self.split!r} has no alpha {alpha:g}; it has {listed or 'controls only'}")

    def only(self, keep: Callable[[Member], bool]) -> "Counts | None":
        """Some of the members; None if there are none of that kind."""
        rows = [i for i, member in enumerate(self.members) if keep(member)]
        if not rows:
            return None
        return replace(self.only_rows(rows), left_out=tuple(filter(keep, self.left_out)))

    def only_rows(self, rows: list[int]) -> "Counts":
        """The members of these rows, possibly none."""
        return replace(
            self,
            members=tuple(self.members[i] for i in rows),
            outcomes=self.outcomes[rows],
            causes=self.causes[rows],
            uncompiled=self.uncompiled[rows],
            tokens=self.tokens[rows],
            left_out=(),
        )

    def with_tag(self, tag: str) -> "Counts":
        """The problems that carry `tag`; a `UserError` if there is none."""
        return self._problems([i for i, tags in enumerate(self.tags) if tag in tags], f"tagged {tag!r}")

    def of_difficulty(self, difficulty: str) -> "Counts":
        """The problems of one difficulty; a `UserError` if there is none."""
        rows = [i for i, value in enumerate(self.difficulties) if value == difficulty]
        return self._problems(rows, f"of difficulty {difficulty!r}")

    def _problems(self, keep: list[int], which: str) -> "Counts":
        if not keep:
            raise UserError(f"split {self.split!r} has no problem {which}")
        return replace(
            self,
            problem_ids=tuple(self.problem_ids[i] for i in keep),
            outcomes=self.outcomes[:, keep],
            causes=self.causes[:, keep],
            uncompiled=self.uncompiled[:, keep],
            tokens=self.tokens[:, keep],
            tags=tuple(self.tags[i] for i in keep),
            difficulties=tuple(self.difficulties[i] for i in keep),
        )


Tables = Mapping[str, Counts]
"""Counts by split."""

_WIDTH = len(OUTCOMES) + len(CAUSES) + 2  # and programs that do not compile, and tokens
_OUTCOME = {str(outcome): i for i, outcome in enumerate(OUTCOMES)}
_CAUSE = {str(cause): len(OUTCOMES) + i for i, cause in enumerate(CAUSES)}


class Tally:
    """Adds up samples one by one, in memory that grows with members x problems only."""

    def __init__(self) -> None:
        # (split, alpha, label, problem) -> counts, and the indices seen as the bits of one number.
        self._cells: dict[tuple[str, float | None, str, str], tuple[list[int], list[int]]] = {}
        self._about: dict[tuple[str, str], tuple[tuple[str, ...], str | None]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """One sample in the form of `Sample.to_json`; `UserError` when it was added before."""
        numbers, seen = self._cell(row)
        bit = 1 << row["index"]
        if seen[0] & bit:
            raise occurs_twice(row)
        seen[0] |= bit
        self._count(numbers, row, 1, row["tokens"])

    def add_group(self, row: Mapping[str, Any], answers: int, tokens: int) -> None:
        """Several distinct samples that agree in all that is counted; `tokens` over all of them."""
        self._count(self._cell(row)[0], row, answers, tokens)

    def _cell(self, row: Mapping[str, Any]) -> tuple[list[int], list[int]]:
        split, problem = row["split"], row["problem_id"]
        key = (split, row["alpha"], row.get("label", ""), problem)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = [0] * _WIDTH, [0]
            self._about.setdefault((split, problem), (tuple(row["tags"]), row.get("difficulty")))
        return cell

    @staticmethod
    def _count(numbers: list[int], row: Mapping[str, Any], answers: int, tokens: int) -> None:
        numbers[_OUTCOME[row["outcome"]]] += answers
        if row["format_error"] is not None:
            numbers[_CAUSE[row["format_error"]]] += answers
        if row.get("compile_error", False):
            numbers[-2] += answers
        numbers[-1] += tokens

    def tables(self) -> dict[str, Counts]:
        """Counts per split, splits in alphabetical order; see `tabulate`."""
        splits = sorted({split for split, *_ in self._cells})
        return {split: self._table(split) for split in splits}

    def _table(self, split: str) -> Counts:
        mine = {
            (Member(alpha, label), problem): cell[0]
            for (where, alpha, label, problem), cell in self._cells.items()
            if where == split
        }
        members = sorted({member for member, _ in mine}, key=lambda member: member.order)
        problems = sorted({problem for _, problem in mine})
        row = {member: i for i, member in enumerate(members)}
        column = {problem: i for i, problem in enumerate(problems)}
        table = np.zeros((len(members), len(problems), _WIDTH), dtype=np.int64)
        for (member, problem), numbers in mine.items():
            table[row[member], column[problem]] = numbers
        outcomes = table[:, :, : len(OUTCOMES)]
        answered = outcomes.sum(axis=2) > 0
        full = answered.all(axis=1)
        if not full.any():
            worst = int(answered.sum(axis=1).argmin())
            missing = problems[int((~answered[worst]).argmax())]
            raise UserError(
                f"split {split!r}: no member has answers to all {len(problems)} problems "
                f"({members[worst].name} has none to {missing!r}); sample further, or give each set of "
                "problems a split of its own"
            )
        about = [self._about[split, problem] for problem in problems]
        return Counts(
            split,
            tuple(m for m, ok in zip(members, full) if ok),
            tuple(problems),
            outcomes[full],
            table[full, :, len(OUTCOMES) : -2],
            table[full, :, -2],
            table[full, :, -1],
            tuple(tags for tags, _ in about),
            tuple(difficulty for _, difficulty in about),
            tuple(m for m, ok in zip(members, full) if not ok),
        )


def occurs_twice(row: Mapping[str, Any]) -> UserError:
    """The refusal of a sample that is there already."""
    who = Member(row["alpha"], row.get("label", "")).name
    return UserError(
        f"sample {row['index']} of {who} to problem {row['problem_id']!r} of split {row['split']!r} occurs "
        "twice; merge the files without overlap"
    )


def tabulate(samples: Iterable[Sample]) -> dict[str, Counts]:
    """Counts per split, splits in alphabetical order.

    A member without an answer to some problem of the split is left out and listed in `left_out`. Members may
    have different numbers of answers. Raises `UserError` when a sample occurs twice, or when no member of a
    split is complete.
    """
    tally = Tally()
    for sample in samples:
        tally.add(sample.to_json())
    return tally.tables()
