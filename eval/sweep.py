"""The frontier: what changes along alpha, in rates, slopes, and reach beyond the trained endpoints.

A point of the frontier is (optimization failures, correctness failures) at one alpha, as shares of all
answers, averaged over problems. `frontier` returns the points with intervals, the slope of each rate on
alpha, and how far extrapolated points lie beyond the endpoints. It does *not* judge the paper's claims:
see `claims.py`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.counts import OUTCOMES, Counts
from cef_env.eval.intervals import LEVEL, ONE_PROBLEM, Bootstrap, Interval
from cef_env.eval.shape import HIGH, LOW, STABLE, Shape, shape
from cef_env.judge.types import Outcome

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """One alpha."""

    alpha: float
    rates: dict[Outcome, Interval]
    """Share of answers by outcome, mean over problems."""

    @property
    def trained(self) -> bool:
        return self.alpha in (LOW, HIGH)

    @property
    def extrapolated(self) -> bool:
        return not LOW <= self.alpha <= HIGH


@dataclass(frozen=True)
class Slope:
    """Change of one rate per unit of alpha: least squares within each problem, mean over problems."""

    outcome: Outcome
    over: tuple[float, float]
    """Smallest and largest alpha used."""
    estimate: Interval
    """With a t interval over the problems' slopes, which makes answers to one problem one cluster."""


@dataclass(frozen=True)
class Reach:
    """How far an extrapolated alpha lies beyond the endpoint on its side; paired over problems."""

    alpha: float
    optimization: Interval
    """Below 0: low's endpoint subtracted, so > 0 means more optimization failures than low. Above 1: high
    subtracted, so < 0 means fewer than high."""
    correctness: Interval
    """Same differences for correctness failures: < 0 beyond low and > 0 beyond high continue the frontier."""


@dataclass(frozen=True)
class Frontier:
    """Everything read off the sweep of one split."""

    split: str
    points: tuple[Point, ...]
    slopes: tuple[Slope, ...]
    """One per outcome over [0, 1] and one per outcome over the stable range, where two alphas exist."""
    reach: tuple[Reach, ...]
    shape: Shape


def frontier(counts: Counts, seed: int = 0, bootstrap: Bootstrap | None = None) -> Frontier:
    """The frontier of one split, with paired intervals of `bootstrap`, by default over problems with `seed`.

    `counts` must contain alpha 0 and 1 for `reach`; without them it is empty.
    """
    if not counts.problem_ids:
        raise UserError(f"split {counts.split!r} has no problem")
    bootstrap = bootstrap or Bootstrap.over(len(counts.problem_ids), seed)
    by_outcome = {o: bootstrap.means(counts.rate(o)) for o in OUTCOMES}
    points = tuple(
        Point(alpha, {o: by_outcome[o][i] for o in OUTCOMES}) for i, alpha in enumerate(counts.alphas)
    )
    slopes = []
    for lower, upper in ((LOW, HIGH), STABLE):
        inside = [a for a in counts.alphas if lower <= a <= upper]
        if len(inside) >= 2:
            slopes += [Slope(o, (inside[0], inside[-1]), slope(counts, o, inside)) for o in OUTCOMES]
    reach = tuple(_reach(counts, bootstrap))
    return Frontier(counts.split, points, tuple(slopes), reach, shape(counts, bootstrap))


def slope(counts: Counts, outcome: Outcome, alphas: list[float]) -> Interval:
    """Mean over problems of the least-squares slope of the rate on alpha, with a 95% t interval."""
    from scipy.special import stdtrit  # scipy.stats has the same function and takes seconds to import

    rows = [counts.at(alpha) for alpha in alphas]
    x = np.asarray(alphas) - np.mean(alphas)
    slopes: Floats = x @ counts.rate(outcome)[rows] / (x @ x)
    mean, size = float(slopes.mean()), len(slopes)
    if size < 2:
        return Interval(mean, reason=ONE_PROBLEM)
    half = float(stdtrit(size - 1, (1 + LEVEL) / 2) * slopes.std(ddof=1) / math.sqrt(size))
    return Interval(mean, mean - half, mean + half)


def difference(counts: Counts, bootstrap: Bootstrap, outcome: Outcome, alpha: float, base: float) -> Interval:
    """Rate at `alpha` minus rate at `base`, paired over problems."""
    rate = counts.rate(outcome)
    return bootstrap.mean(rate[counts.at(alpha)] - rate[counts.at(base)])


def _reach(counts: Counts, bootstrap: Bootstrap) -> list[Reach]:
    if LOW not in counts.alphas or HIGH not in counts.alphas:
        return []
    found = []
    for alpha in counts.alphas:
        if LOW <= alpha <= HIGH:
            continue
        base = LOW if alpha < LOW else HIGH
        optimization = difference(counts, bootstrap, Outcome.OPTIMIZATION_FAILURE, alpha, base)
        correctness = difference(counts, bootstrap, Outcome.CORRECTNESS_FAILURE, alpha, base)
        found.append(Reach(alpha, optimization, correctness))
    return found
