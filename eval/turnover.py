"""Do different alphas solve different problems, beyond what two draws of one policy would show anyway?

A problem counts as solved by h answers if any of them is correct. Two sets of h answers by the same
policy solve different problems by chance alone, so a Jaccard index means nothing without that null. Here
h = half the answers drawn; expected intersections and unions over all ways to choose the answers are
exact (hypergeometric), for two alphas and for two disjoint halves of one alpha, so nothing is simulated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.counts import Counts
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.passk import pass_at_k

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Turnover:
    """Two alphas compared at h answers each."""

    alphas: tuple[float, float]
    answers: int
    """h."""
    jaccard: Interval
    """Expected size of the intersection of the solved sets over that of their union."""
    null: Interval
    """The same for two disjoint halves of one alpha, pooled over the two alphas."""
    excess: Interval
    """null - jaccard: > 0 when the alphas differ by more than redrawing does."""
    only_first: Interval
    """Share of problems: how much more often two draws of the first alpha agree to solve a problem than
    first and second do. > 0 only if the first solves problems that the second does not, so a second
    alpha that merely solves more or fewer problems cannot make both this and `only_second` positive."""
    only_second: Interval


def solved(counts: Counts, answers: int) -> Floats:
    """Shape (A, P): chance that `answers` of the answers drawn contain a correct one."""
    return np.asarray(pass_at_k(counts.n, counts.correct, answers))


def half_budget(counts: Counts) -> int:
    """h: half the smallest number of answers; a `UserError` when there are not two answers everywhere."""
    least = int(counts.n.min())
    if least < 2:
        raise UserError(
            f"split {counts.split!r}: turnover needs 2 answers to every problem, some have {least}"
        )
    return least // 2


def turnover(
    counts: Counts, first: float, second: float, bootstrap: Bootstrap, answers: int | None = None
) -> Turnover:
    """Compare the problems solved at two alphas; intervals from the paired bootstrap over problems.

    `answers`: h; by default half of those drawn, which is the most.
    """
    h = half_budget(counts) if answers is None else min(answers, half_budget(counts))
    a, b = counts.at(first), counts.at(second)
    rows = [a, b]
    n, c = counts.n[rows], counts.correct[rows]
    once = np.asarray(pass_at_k(n, c, h))  # (2, P)
    twice = np.asarray(pass_at_k(n, c, 2 * h))  # union of two disjoint halves
    self_both = 2 * once - twice
    cross_both = once[0] * once[1]
    cross_union = once[0] + once[1] - cross_both
    values = np.stack([cross_both, cross_union, self_both.sum(axis=0), twice.sum(axis=0)])

    def jaccard(m: Floats) -> Floats:
        return _ratio(m[0], m[1])

    def null(m: Floats) -> Floats:
        return _ratio(m[2], m[3])

    return Turnover(
        (counts.alphas[a], counts.alphas[b]),
        h,
        bootstrap.statistic(values, jaccard),
        bootstrap.statistic(values, null),
        bootstrap.statistic(values, lambda m: null(m) - jaccard(m)),
        bootstrap.mean(self_both[0] - cross_both),
        bootstrap.mean(self_both[1] - cross_both),
    )


def jaccard_matrix(counts: Counts) -> Floats:
    """Shape (A, A): expected Jaccard index at h answers each; the diagonal is the split-half null."""
    h = half_budget(counts)
    once = solved(counts, h)
    twice = solved(counts, 2 * h)
    both = once @ once.T
    size = once.sum(axis=1)
    union = size[:, None] + size[None, :] - both
    np.fill_diagonal(both, (2 * once - twice).sum(axis=1))
    np.fill_diagonal(union, twice.sum(axis=1))
    return _ratio(both, union)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    """NaN where nothing is solved."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
