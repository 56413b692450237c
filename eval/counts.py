"""Counts of outcomes by alpha and problem: the one table that every statistic is computed from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.records import Sample
from cef_env.judge.types import FormatErrorCause, Outcome

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
"""Order of the last axis of `Counts.outcomes`."""
CAUSES: tuple[FormatErrorCause, ...] = tuple(FormatErrorCause)
"""Order of the last axis of `Counts.causes`."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counts:
    """One split. Every alpha has samples of every problem, so that comparisons over alpha are paired."""

    split: str
    alphas: tuple[float, ...]
    """Ascending; A of them."""
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
    incomplete: tuple[float, ...] = ()
    """Alphas that were left out because some problem has no answer yet."""

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
        """Index of an alpha; a `UserError` if it was not sampled."""
        for i, value in enumerate(self.alphas):
            if value == alpha:
                return i
        listed = ", ".join(f"{a:g}" for a in self.alphas)
        raise UserError(f"split {self.split!r} has no alpha {alpha:g}; it has {listed}")

    def with_tag(self, tag: str) -> "Counts":
        """The problems that carry `tag`; a `UserError` if there is none."""
        keep = [i for i, tags in enumerate(self.tags) if tag in tags]
        if not keep:
            raise UserError(f"split {self.split!r} has no problem tagged {tag!r}")
        return replace(
            self,
            problem_ids=tuple(self.problem_ids[i] for i in keep),
            outcomes=self.outcomes[:, keep],
            causes=self.causes[:, keep],
            uncompiled=self.uncompiled[:, keep],
            tokens=self.tokens[:, keep],
            tags=tuple(self.tags[i] for i in keep),
        )


def tabulate(samples: Iterable[Sample]) -> dict[str, Counts]:
    """Counts per split, splits in alphabetical order.

    An alpha at which some problem of the split has no answer is left out and listed in `incomplete`.
    Raises `UserError` when a sample occurs twice, or when no alpha of a split is complete.
    """
    splits: dict[str, list[Sample]] = {}
    seen: set[tuple[str, float, str, int]] = set()
    for sample in samples:
        cell = (sample.split, sample.alpha, sample.problem_id, sample.index)
        if cell in seen:
            raise UserError(f"sample {cell} occurs twice; merge the files without overlap")
        seen.add(cell)
        splits.setdefault(sample.split, []).append(sample)
    return {split: _tabulate_split(split, splits[split]) for split in sorted(splits)}


def _tabulate_split(split: str, samples: Sequence[Sample]) -> Counts:
    alphas = sorted({s.alpha for s in samples})
    problems = sorted({s.problem_id for s in samples})
    row = {alpha: i for i, alpha in enumerate(alphas)}
    column = {problem: i for i, problem in enumerate(problems)}
    outcomes = np.zeros((len(alphas), len(problems), len(OUTCOMES)), dtype=np.int64)
    causes = np.zeros((len(alphas), len(problems), len(CAUSES)), dtype=np.int64)
    uncompiled = np.zeros((len(alphas), len(problems)), dtype=np.int64)
    tokens = np.zeros_like(uncompiled)
    tags: dict[str, tuple[str, ...]] = {}
    for s in samples:
        a, p = row[s.alpha], column[s.problem_id]
        outcomes[a, p, OUTCOMES.index(s.outcome)] += 1
        uncompiled[a, p] += s.compile_error
        tokens[a, p] += s.tokens
        if s.format_error is not None:
            causes[a, p, CAUSES.index(FormatErrorCause(s.format_error))] += 1
        tags.setdefault(s.problem_id, s.tags)
    full = (outcomes.sum(axis=2) > 0).all(axis=1)
    if not full.any():
        raise UserError(
            f"split {split!r}: no alpha has answers to all {len(problems)} problems; sample further"
        )
    return Counts(
        split,
        tuple(a for a, ok in zip(alphas, full) if ok),
        tuple(problems),
        outcomes[full],
        causes[full],
        uncompiled[full],
        tokens[full],
        tuple(tags[p] for p in problems),
        tuple(a for a, ok in zip(alphas, full) if not ok),
    )
