"""Ensembles of alphas against the best single alpha, at one sample budget, without the winner's curse.

Choosing the best of several checkpoints on the data that then measure it flatters the choice. So members
are chosen on four fifths of the problems and measured on the last fifth, in turn (cross-fitting), and
the folds are redrawn a few times and averaged. The budget is split evenly over the members; all subsets
are tried. Every bootstrap resample of problems chooses anew within the same folds: an interval around fixed
choices would be too narrow, because an alpha that looks best on four folds tends to be unlucky on the fifth.

An even split over members that differ beats their average for no deeper reason than that the mean of the
failure probabilities is at least their geometric mean (`splitting` measures that). What is evidence is a gain
over the best single alpha, and over interpolated sets of the same sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.counts import Counts
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.passk import combine, log_fail
from cef_env.eval.shape import HIGH, LOW

Floats = NDArray[np.float64]
Folds = list[list[NDArray[np.intp]]]
"""For each repeat, the problems of each fold."""

FOLDS = 5
REPEATS = 3
ENUMERATED = 12
"""Up to so many alphas every subset is tried; of more, sets of at most `FEW`."""
FEW = 4
ROOM = 0.8
LEAST_BUDGET = 2
"""One answer for each of two members."""
_BLOCK = 250
"""Resamples worked on at once."""


@dataclass(frozen=True)
class Choice:
    """The best member set of one pool, chosen and measured on different problems."""

    pool: tuple[float, ...]
    """Alphas to choose from."""
    sizes: tuple[int, int]
    """Smallest and largest set considered."""
    pass_at_budget: Interval
    """Chance of solving a problem within the budget, mean over problems."""
    usual: tuple[float, ...]
    """The set chosen when all problems are used; for description, not measured on them."""
    naive: float
    """What that set would be said to solve if it were measured on the problems that chose it: too much."""


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
    extended_equal: Choice | None
    """Best ensemble from all alphas, of sets no larger than the interpolated ones may be."""
    gain_over_single: Interval
    """extended - single, paired over problems."""
    gain_over_interpolated: Interval | None
    """extended_equal - interpolated, paired over problems."""
    everyone: Interval
    """All alphas share the budget evenly; nothing is chosen."""
    splitting: Interval
    """everyone - mean of the single alphas: positive by construction where alphas differ, so no evidence."""


def compare_ensembles(
    counts: Counts,
    bootstrap: Bootstrap,
    budget: int | None = None,
    seed: int = 0,
    problem_folds: Folds | None = None,
) -> EnsembleComparison:
    """Compare pools at `budget` answers (default: half the answers drawn, which keeps the estimates steady).

    `problem_folds`: by default drawn with `seed`; columns that are not independent share a fold.

    Raises `UserError` with fewer than `FOLDS` problems, without alpha 0 and 1, or when `budget` exceeds
    the answers drawn.
    """
    if len(counts.problem_ids) < FOLDS:
        have = len(counts.problem_ids)
        raise UserError(f"split {counts.split!r}: cross-fitting needs {FOLDS} problems, it has {have}")
    budget = default_budget(counts) if budget is None else budget
    solver = Solver(counts, budget)
    everything = counts.alphas
    inside = tuple(a for a in everything if LOW <= a <= HIGH)
    problem_folds = problem_folds or folds(len(counts.problem_ids), seed)

    def choose(pool: tuple[float, ...], most: int, least: int = 2) -> tuple[Choice, Floats]:
        sets = _sets([counts.at(a) for a in pool], least, min(most, budget))
        table = solver.table(sets)  # (sets, P)
        draws = _cross_fit(table, bootstrap.weights, problem_folds)
        best = int(table.mean(axis=1).argmax())
        usual = tuple(everything[m] for m in sets[best])
        sizes = len(sets[0]), len(sets[-1])
        return Choice(pool, sizes, bootstrap.smoothed(draws), usual, float(table[best].mean())), draws

    single, single_draws = choose(everything, 1, least=1)
    best_trained, _ = choose((LOW, HIGH), 1, least=1)
    extended, extended_draws = choose(everything, len(everything))
    interpolated = equal = gain = None
    if len(inside) > 2:
        interpolated, draws = choose(inside, len(inside))
        if len(everything) > len(inside):
            equal, equal_draws = choose(everything, len(inside))
            gain = bootstrap.smoothed(equal_draws - draws)
    shared = solver(tuple(range(len(everything))))
    alone = np.mean([solver((m,)) for m in range(len(everything))], axis=0)
    return EnsembleComparison(
        budget,
        single,
        best_trained,
        extended,
        interpolated,
        equal,
        bootstrap.smoothed(extended_draws - single_draws),
        gain,
        bootstrap.mean(shared),
        bootstrap.mean(shared - alone),
    )


def default_budget(counts: Counts) -> int:
    """Half of the answers drawn, but one for each of two members."""
    return max(2, int(counts.n.min()) // 2)


def budget_with_room(counts: Counts) -> int:
    """The largest budget, up to the default, at which the better trained checkpoint solves at most `ROOM` of
    the problems: where nearly all are solved anyway, no ensemble can gain."""
    rows = [counts.at(alpha) for alpha in (LOW, HIGH)]
    for budget in range(default_budget(counts), LEAST_BUDGET, -1):
        if Solver(counts, budget).table([(row,) for row in rows]).mean(axis=1).max() <= ROOM:
            return budget
    return LEAST_BUDGET


class Solver:
    """Chance of solving each problem by a set of members; logs are computed once per share."""

    def __init__(self, counts: Counts, budget: int) -> None:
        self._counts, self._budget = counts, budget
        self._logs: dict[int, Floats] = {}

    def _log(self, k: int) -> Floats:
        if k not in self._logs:
            self._logs[k] = log_fail(self._counts.n, self._counts.correct, k)  # (A, P)
        return self._logs[k]

    def __call__(self, members: Sequence[int]) -> Floats:
        """Shape (P,): one set of members."""
        return self.table([tuple(members)])[0]

    def table(self, sets: Sequence[tuple[int, ...]]) -> Floats:
        """Shape (sets, P)."""
        result = np.empty((len(sets), self._counts.n.shape[1]))
        for size in {len(members) for members in sets}:
            rows = [i for i, members in enumerate(sets) if len(members) == size]
            columns = np.array([sets[i] for i in rows]).T  # (size, sets of this size)
            share, rest = divmod(self._budget, size)
            logs = [self._log(share)[chosen] for chosen in columns]
            more = [self._log(share + 1)[chosen] for chosen in columns] if rest else logs
            result[rows] = combine(logs, more, rest)
        return result


def _sets(members: Sequence[int], least: int, most: int) -> list[tuple[int, ...]]:
    """Sets of `least` to `most` members, smaller ones first."""
    if len(members) > ENUMERATED:
        most = min(most, FEW)
    return [chosen for size in range(least, most + 1) for chosen in combinations(members, size)]


def folds(problems: int, seed: int) -> Folds:
    """The same folds for everything that is cross-fitted on a split."""
    rng = np.random.default_rng([seed, problems, FOLDS])
    return [np.array_split(rng.permutation(problems), FOLDS) for _ in range(REPEATS)]


def _cross_fit(table: Floats, weights: Floats, problem_folds: Folds) -> Floats:
    """Out-of-fold mean of the best set, mean over repeats; `table` (sets, P), `weights` (draws, P).

    All copies of a resampled problem lie in one fold, so no problem helps to choose what it measures.
    """
    result = np.zeros(len(weights))
    for start in range(0, len(weights), _BLOCK):
        block = weights[start : start + _BLOCK]
        totals = block @ table.T  # (block, sets)
        for parts in problem_folds:
            for part in parts:
                here = block[:, part] @ table[:, part].T
                best = (totals - here).argmax(axis=1)
                result[start : start + _BLOCK] += np.take_along_axis(here, best[:, None], axis=1)[:, 0]
    return result / len(problem_folds)
