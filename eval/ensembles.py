"""Ensembles of alphas against the best single alpha, at one sample budget, without the winner's curse.

Choosing the best of several checkpoints on the data that then measure it flatters the choice. So members
are chosen on four fifths of the problems and measured on the last fifth, in turn (cross-fitting), and
the folds are redrawn a few times and averaged. The budget is split evenly over the members. Every
bootstrap resample of problems chooses anew within the same folds: an interval around fixed choices would
be too narrow, because an alpha that looks best on four folds tends to be unlucky on the fifth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.counts import Counts
from cef_env.eval.intervals import Bootstrap, Interval, interval
from cef_env.eval.passk import combine, log_fail
from cef_env.eval.sweep import HIGH, LOW

Floats = NDArray[np.float64]

FOLDS = 5
REPEATS = 3
MEMBERS = (2, 3, 4)
"""Sizes of ensembles considered; the same for every pool, so that no pool wins by being larger."""


@dataclass(frozen=True)
class Choice:
    """The best member set of one pool, chosen and measured on different problems."""

    pool: tuple[float, ...]
    """Alphas to choose from."""
    pass_at_budget: Interval
    """Chance of solving a problem within the budget, mean over problems."""
    usual: tuple[float, ...]
    """The set chosen when all problems are used; for description, not measured on them."""


@dataclass(frozen=True)
class EnsembleComparison:
    """Singles and ensembles of one split at the same number of answers for each problem."""

    budget: int
    """Answers to one problem, over all members."""
    single: Choice
    """Best single alpha of all that were sampled."""
    trained: Choice
    """Best of the two trained checkpoints."""
    extended: Choice
    """Best ensemble from all alphas."""
    interpolated: Choice | None
    """Best ensemble from the alphas inside [0, 1]."""
    gain_over_single: Interval
    """extended - single, paired over problems."""
    gain_over_interpolated: Interval | None
    """extended - interpolated, paired over problems."""


def compare_ensembles(
    counts: Counts, bootstrap: Bootstrap, budget: int | None = None, seed: int = 0
) -> EnsembleComparison:
    """Compare pools at `budget` answers (default: half the answers drawn, which keeps the estimates steady).

    Raises `UserError` with fewer than `FOLDS` problems, without alpha 0 and 1, or when `budget` exceeds
    the answers drawn.
    """
    if len(counts.problem_ids) < FOLDS:
        have = len(counts.problem_ids)
        raise UserError(f"split {counts.split!r}: cross-fitting needs {FOLDS} problems, it has {have}")
    budget = max(max(MEMBERS), int(counts.n.min()) // 2) if budget is None else budget
    solver = _Solver(counts, budget)
    everything = counts.alphas
    inside = tuple(a for a in everything if LOW <= a <= HIGH)
    trained = [(counts.at(LOW),), (counts.at(HIGH),)]
    folds = _folds(len(counts.problem_ids), seed)

    def choose(pool: tuple[float, ...], sets: Sequence[tuple[int, ...]]) -> tuple[Choice, Floats]:
        table = np.stack([solver(members) for members in sets])  # (sets, P)
        draws = _cross_fit(table, bootstrap.weights, folds)
        usual = sets[int(table.mean(axis=1).argmax())]
        return Choice(pool, _interval(draws, counts), tuple(everything[m] for m in usual)), draws

    single, single_draws = choose(everything, [(m,) for m in range(len(everything))])
    best_trained, _ = choose((LOW, HIGH), trained)
    extended, extended_draws = choose(everything, _sets([counts.at(a) for a in everything]))
    interpolated, gain = None, None
    if len(inside) > 2:
        interpolated, draws = choose(inside, _sets([counts.at(a) for a in inside]))
        if len(everything) > len(inside):
            gain = _interval(extended_draws - draws, counts)
    return EnsembleComparison(
        budget,
        single,
        best_trained,
        extended,
        interpolated,
        _interval(extended_draws - single_draws, counts),
        gain,
    )


def _interval(draws: Floats, counts: Counts) -> Interval:
    """Mean and percentiles of the resamples.

    The estimate is the mean over resamples, not the one value on the data: where two sets are nearly tied,
    the choice on the data alone turns on a single problem, and averaging smooths that jump (Efron 2014,
    "Estimation and accuracy after model selection").
    """
    return interval(float(draws.mean()), draws, len(counts.problem_ids))


class _Solver:
    """Chance of solving each problem by a set of members; logs are computed once per share."""

    def __init__(self, counts: Counts, budget: int) -> None:
        self._counts, self._budget = counts, budget
        self._logs: dict[int, Floats] = {}

    def _log(self, k: int) -> Floats:
        if k not in self._logs:
            self._logs[k] = log_fail(self._counts.n, self._counts.correct, k)  # (A, P)
        return self._logs[k]

    def __call__(self, members: tuple[int, ...]) -> Floats:
        share, rest = divmod(self._budget, len(members))
        logs = [self._log(share)[m] for m in members]
        return combine(logs, [self._log(share + 1)[m] for m in members] if rest else logs, rest)


def _sets(members: Sequence[int]) -> list[tuple[int, ...]]:
    return [chosen for size in MEMBERS for chosen in combinations(members, size)]


def _folds(problems: int, seed: int) -> list[list[NDArray[np.intp]]]:
    rng = np.random.default_rng([seed, problems, FOLDS])
    return [np.array_split(rng.permutation(problems), FOLDS) for _ in range(REPEATS)]


def _cross_fit(table: Floats, weights: Floats, folds: list[list[NDArray[np.intp]]]) -> Floats:
    """Out-of-fold mean of the best set, mean over repeats; `table` (sets, P), `weights` (draws, P).

    All copies of a resampled problem lie in one fold, so no problem helps to choose what it measures.
    """
    result = np.zeros(len(weights))
    totals = weights @ table.T  # (draws, sets)
    for parts in folds:
        for part in parts:
            here = weights[:, part] @ table[:, part].T
            best = (totals - here).argmax(axis=1)
            result += np.take_along_axis(here, best[:, None], axis=1)[:, 0]
    return result / len(folds)
