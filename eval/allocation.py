"""How to spend a budget over members when it need not be even: greedy, then swaps, cross-fitted.

The mean chance of solving is concave in each share and has diminishing returns over all, so greedy (a few
answers at a time to the member that helps most) is near the optimum, and moving single answers from one
member to another while that helps comes nearer still. Chosen on four fifths of the problems and measured on
the last fifth, anew in every bootstrap resample, as in `ensembles.py`: intervals at fixed shares exclude 0 in
a quarter of the cases where members are all alike.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cef_env.eval.counts import Counts
from cef_env.eval.ensembles import Solver, folds
from cef_env.eval.intervals import Bootstrap, Interval, interval
from cef_env.eval.passk import log_fail

Floats = NDArray[np.float64]
TINY = 1e-9
"""Gains below this are rounding."""
STEPS = 25
"""Greedy gives away a budget in about so many parts; swaps of single answers do the rest."""
RESAMPLES = 200
"""Each costs a search, so there are fewer than elsewhere."""


@dataclass(frozen=True)
class Allocation:
    """Shares of the budget, chosen for the mean chance of solving a problem."""

    budget: int
    shares: tuple[tuple[float, int], ...]
    """(alpha, answers) when all problems are used; for description."""
    pass_at_budget: Interval
    """Cross-fitted."""
    gain_over_even: Interval
    """Against an even split over all alphas, paired over problems."""


def allocation(counts: Counts, bootstrap: Bootstrap, budget: int, seed: int = 0) -> Allocation:
    """`counts`: alphas only. Raises `UserError` when `budget` exceeds the answers drawn from some member."""
    table = fail_table(counts, budget)
    problems = table.shape[2]
    even = Solver(counts, budget)(range(len(counts.alphas)))
    repeats = folds(problems, seed)
    draws = np.empty((2, min(RESAMPLES, len(bootstrap.weights))))
    for b in range(draws.shape[1]):
        weights = bootstrap.weights[b]
        solved = 0.0
        for part in repeats[b % len(repeats)]:
            others = weights.copy()
            others[part] = 0
            used = np.flatnonzero(others)
            shares = best_shares(table[:, :, used], budget, others[used])
            solved += float(weights[part] @ (1 - _product(table[:, :, part], shares)))
        draws[:, b] = solved, solved - weights @ even
    final = best_shares(table, budget, np.full(problems, 1 / problems))
    return Allocation(
        budget,
        tuple((a, int(k)) for a, k in zip(counts.alphas, final) if k),
        *(interval(float(row.mean()), row, problems) for row in draws),
    )


def fail_table(counts: Counts, budget: int) -> Floats:
    """Shape (A, budget + 1, P): chance that k answers of a member all fail."""
    return np.exp(np.stack([log_fail(counts.n, counts.correct, k) for k in range(budget + 1)], axis=1))


def best_shares(table: Floats, budget: int, weights: Floats) -> NDArray[np.intp]:
    """Shares, shape (A,), that sum to `budget`, by greedy and swaps.

    `table` (A, budget + 1, P) as `fail_table`; `weights` (P,) of the problems.
    """
    members = np.arange(len(table))
    shares = np.zeros(len(table), dtype=np.intp)
    left = budget
    while left:
        step = min(left, max(1, budget // STEPS))
        others = _leave_out(table[members, shares])
        fail = (others * table[members, shares + step]) @ weights  # if this member gets `step` more
        shares[int(fail.argmin())] += step
        left -= step
    while True:
        now = table[members, shares]  # (A, P)
        best, move = float(now.prod(axis=0) @ weights) - TINY, None
        for giver in members[shares > 0]:
            fewer = now.copy()
            fewer[giver] = table[giver, shares[giver] - 1]
            more = table[members, np.minimum(shares + 1, table.shape[1] - 1)]
            fail = (_leave_out(fewer) * more) @ weights
            fail[giver] = np.inf
            taker = int(fail.argmin())
            if fail[taker] < best:
                best, move = float(fail[taker]), (giver, taker)
        if move is None:
            return shares
        shares[move[0]] -= 1
        shares[move[1]] += 1


def _leave_out(values: Floats) -> Floats:
    """Shape (A, P): product over all other rows, without division (rows may be 0)."""
    before = np.ones_like(values)
    after = np.ones_like(values)
    np.cumprod(values[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumprod(values[:0:-1], axis=0)[::-1]
    return before * after


def _product(table: Floats, shares: NDArray[np.intp]) -> Floats:
    product: Floats = table[np.arange(len(table)), shares].prod(axis=0)
    return product
