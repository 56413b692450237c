"""Nested bootstrap: problems are redrawn, and within each drawn problem its answers.

The bootstrap over problems (`intervals.py`) carries the noise of the answers already, because each problem
comes with its own; it is the default. Redrawing answers, too, adds their noise once more: wider, on the safe
side, for a reader who asks what another set of problems *and* another set of answers would have given.
Redrawn with replacement, a problem with one correct answer in n loses it in 37% of the draws; so this is
refused below n = 2k, and the draws are centred on the unbiased estimate.
"""

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.counts import Counts
from cef_env.eval.intervals import RESAMPLES, Interval, interval
from cef_env.eval.passk import pass_at_k

Floats = NDArray[np.float64]


def nested_pass_at_k(counts: Counts, k: int, seed: int = 0, resamples: int = RESAMPLES) -> list[Interval]:
    """pass@k of every member with nested intervals; `UserError` when some n < 2k."""
    least = int(counts.n.min())
    if least < 2 * k:
        raise UserError(f"nested: pass@{k} needs {2 * k} answers to every problem, some have {least}")
    problems = len(counts.problem_ids)
    rng = np.random.default_rng([seed, problems, k])
    drawn = rng.integers(problems, size=(resamples, problems))  # the same problems for every member
    n, c = counts.n, counts.correct
    values = np.asarray(pass_at_k(n, c, k)).mean(axis=1)
    found = []
    for m, value in enumerate(values):
        again = rng.binomial(n[m][drawn], (c[m] / n[m])[drawn])
        draws = _solved(n[m][drawn], again, k).mean(axis=1)
        found.append(interval(float(value), draws - draws.mean() + value, problems))
    return found


def _solved(n: NDArray[np.int64], c: NDArray[np.int64], k: int) -> Floats:
    """pass@k by a table over c for each n that occurs."""
    result = np.empty(n.shape)
    for size in np.unique(n):
        table = np.asarray(pass_at_k(int(size), np.arange(size + 1), k))
        here = n == size
        result[here] = table[c[here]]
    return result
