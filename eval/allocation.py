"""How to spend a budget over members when it need not be even: greedy, then swaps, cross-fitted.

The mean chance of solving is concave in each share and has diminishing returns over all, so greedy (one
answer at a time to the one that helps most) is near the optimum, and moving single answers from one member
to another while that helps comes nearer still. Chosen on four fifths of the problems, measured on the last
fifth, as in `ensembles.py`. The interval holds the shares of each fold fixed; they vary little between folds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cef_env.eval.counts import Counts
from cef_env.eval.ensembles import Solver, folds
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.passk import log_fail

Floats = NDArray[np.float64]
TINY = 1e-12
"""Gains below this are rounding."""


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
    values = np.zeros(problems)
    repeats = folds(problems, seed)
    for parts in repeats:
        for part in parts:
            rest = np.setdiff1d(np.arange(problems), part)
            shares = best_shares(table[:, :, rest], budget)
            values[part] += 1 - _product(table[:, :, part], shares)
    values /= len(repeats)
    even = Solver(counts, budget)(range(len(counts.alphas)))
    final = best_shares(table, budget)
    return Allocation(
        budget,
        tuple((a, int(k)) for a, k in zip(counts.alphas, final) if k),
        bootstrap.mean(values),
        bootstrap.mean(values - even),
    )


def fail_table(counts: Counts, budget: int) -> Floats:
    """Shape (A, budget + 1, P): chance that k answers of a member all fail."""
    return np.exp(np.stack([log_fail(counts.n, counts.correct, k) for k in range(budget + 1)], axis=1))


def best_shares(table: Floats, budget: int) -> NDArray[np.intp]:
    """Shares, shape (A,), that sum to `budget`, by greedy and swaps; `table` as `fail_table`."""
    members = np.arange(len(table))
    shares = np.zeros(len(table), dtype=np.intp)
    for _ in range(budget):
        others = _leave_out(table[members, shares])
        more = (others * table[members, shares + 1]).mean(axis=1)  # mean failure if this member gets one more
        shares[int(more.argmin())] += 1
    while True:
        now = table[members, shares]  # (A, P)
        best, move = float(_product(table, shares).mean()) - TINY, None
        for giver in members[shares > 0]:
            fewer = now.copy()
            fewer[giver] = table[giver, shares[giver] - 1]
            without = _leave_out(fewer)
            more = (without * table[members, np.minimum(shares + 1, table.shape[1] - 1)]).mean(axis=1)
            more[giver] = np.inf
            taker = int(more.argmin())
            if more[taker] < best:
                best, move = float(more[taker]), (giver, taker)
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
