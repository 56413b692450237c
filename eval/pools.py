"""Problems that only the extrapolated members solve, at a budget equal to that of the interpolated ones.

Both pools are disjoint (alphas outside and inside [0, 1]) and draw K answers per problem each, so a larger
pool is no advantage. "Solved by the outer, not by the inner pool" happens by chance, too: two draws of the
inner pool differ. That is the null: K of the inner pool's answers solve a problem and K others do not. All
expectations are exact over which answers are drawn.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cef_env.eval.counts import Counts
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.passk import ensemble_pass_at_k
from cef_env.eval.shape import HIGH, LOW, STABLE

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OnlyOuter:
    """Problems solved outside [0, 1] only."""

    budget: int
    """K."""
    outer: tuple[float, ...]
    """Alphas of the extrapolated pool: those of [-0.5, 1.5] outside [0, 1]."""
    inner: tuple[float, ...]
    share: Interval
    """Share of problems that K answers of the outer pool solve and K of the inner pool do not."""
    null: Interval
    """The same for two disjoint draws of K answers from the inner pool."""
    excess: Interval
    """share - null, paired over problems."""
    problems: tuple[tuple[str, float], ...]
    """(problem, chance to be solved by K answers of the outer pool) of every problem that no answer of the
    inner pool solved, however many there are, and some answer of the outer pool did; most certain first."""


def only_outer(counts: Counts, bootstrap: Bootstrap) -> OnlyOuter | None:
    """None without alphas of both kinds, or when there are too few answers to halve."""
    outer = [counts.at(a) for a in counts.alphas if STABLE[0] <= a <= STABLE[1] and not LOW <= a <= HIGH]
    inner = [counts.at(a) for a in counts.alphas if LOW <= a <= HIGH]
    if not outer or not inner:
        return None
    least = int(counts.n.min())
    # A multiple of the inner members, so that two draws of K are one even draw of 2 K.
    each = min(least // 2, len(outer) * least // len(inner))
    if not each:
        return None
    budget = each * len(inner)

    def solve(rows: list[int], k: int) -> Floats:
        return np.asarray(ensemble_pass_at_k(counts.n[rows], counts.correct[rows], k))

    out, once, twice = solve(outer, budget), solve(inner, budget), solve(inner, 2 * budget)
    only, null = out * (1 - once), twice - once
    never = (counts.correct[inner].sum(axis=0) == 0) & (counts.correct[outer].sum(axis=0) > 0)
    found = [(counts.problem_ids[p], float(out[p])) for p in np.flatnonzero(never)]
    listed = sorted(found, key=lambda pair: (-pair[1], pair[0]))
    return OnlyOuter(
        budget,
        tuple(counts.alphas[i] for i in outer),
        tuple(counts.alphas[i] for i in inner),
        bootstrap.mean(only),
        bootstrap.mean(null),
        bootstrap.mean(only - null),
        tuple(listed),
    )
