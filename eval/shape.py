"""The frontier as one curve: how far it goes beyond its ends, what it encloses, where it is stable and flat.

All from means over problems in the plane of (optimization failures, correctness failures), with paired
bootstrap intervals. Does not judge the paper's claims: see `claims.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cef_env.eval.counts import Counts
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.judge.types import Outcome

Floats = NDArray[np.float64]

LOW, HIGH = 0.0, 1.0
"""Alphas of the two trained checkpoints."""
STABLE = (-0.5, 1.5)
"""The range of alpha that the paper calls stable."""
FORMAT_LIMIT = 0.10
"""An alpha is stable while at most one answer in ten is a format error; fixed before any result existed."""
FLAT_MARGIN = 0.10
"""Solve rates within ten answers in a hundred count as nearly unchanged: the frontier moves each failure
rate by several times that."""
TEST_LEVEL = 0.05

OPT, COR, FMT, OK = (
    Outcome.OPTIMIZATION_FAILURE, Outcome.CORRECTNESS_FAILURE, Outcome.FORMAT_ERROR, Outcome.CORRECT
)  # fmt: skip


@dataclass(frozen=True)
class Beyond:
    """How far one extrapolated alpha continues the way from low to high past the nearer end."""

    alpha: float
    share: Interval
    """Projection of (point - end) on the segment from low to high, in lengths of the segment, positive
    outwards: 0.5 means half as far again as training moved. NaN where the ends coincide."""


@dataclass(frozen=True)
class Hypervolume:
    """Area of the plane that some alphas dominate, with (1, 1) as reference: larger is better, 1 at most.

    Each coordinate counts format errors, too (optimization + format, correctness + format): else a checkpoint
    that writes nothing readable would dominate every other.
    """

    trained: Interval
    interpolated: Interval
    extended: Interval
    """Of all alphas in [-0.5, 1.5]."""
    gain: Interval
    """extended - interpolated. Never negative, as more points cannot enclose less: see `optimism`."""
    optimism: float
    """How much larger the gain is in resamples than on the data: an estimate of what chance adds to it."""


@dataclass(frozen=True)
class StableRange:
    """The alphas around [0, 1] at which format errors stay under `limit`."""

    limit: float
    likely: tuple[float, float] | None
    """Outermost alphas reached from [0, 1] with rates of at most `limit`; None if [0, 1] is not stable."""
    sure: tuple[float, float] | None
    """The same with the upper end of the rate's interval."""


@dataclass(frozen=True)
class Flatness:
    """Equivalence of the solve rates of all alphas in [-0.5, 1.5]: two one-sided t tests per pair (TOST)."""

    margin: float
    largest: Interval
    """The difference of the pair that is furthest apart."""
    pair: tuple[float, float]
    p_value: float
    """Largest over the pairs, which makes it a test that *all* pairs are equivalent (intersection-union)."""

    @property
    def equivalent(self) -> bool:
        """Whether it is shown, at 5%, that no two alphas differ by `margin` or more. False shows nothing."""
        return self.p_value < TEST_LEVEL


@dataclass(frozen=True)
class Shape:
    """Everything of this module for one split; None where the alphas that it needs were not sampled."""

    beyond: tuple[Beyond, ...]
    hypervolume: Hypervolume | None
    stable: StableRange | None
    flatness: Flatness | None


def shape(counts: Counts, bootstrap: Bootstrap, limit: float = FORMAT_LIMIT) -> Shape:
    """`counts`: alphas only."""
    ends = LOW in counts.alphas and HIGH in counts.alphas
    return Shape(
        tuple(_beyond(counts, bootstrap)) if ends else (),
        hypervolume(counts, bootstrap) if ends else None,
        stable_range(counts, bootstrap, limit) if ends else None,
        flatness(counts, bootstrap),
    )


def inside(counts: Counts, low: float, high: float) -> list[float]:
    """The sampled alphas of [low, high]."""
    return [a for a in counts.alphas if low <= a <= high]


def _beyond(counts: Counts, bootstrap: Bootstrap) -> list[Beyond]:
    opt, cor = counts.rate(OPT), counts.rate(COR)
    low, high = counts.at(LOW), counts.at(HIGH)
    found = []
    for alpha in counts.alphas:
        if LOW <= alpha <= HIGH:
            continue
        end, sign = (low, -1.0) if alpha < LOW else (high, 1.0)
        at = counts.at(alpha)
        values = np.stack(
            [opt[at] - opt[end], cor[at] - cor[end], opt[high] - opt[low], cor[high] - cor[low]]
        )

        def share(m: Floats, sign: float = sign) -> Floats:
            length = m[2] ** 2 + m[3] ** 2
            return sign * (m[0] * m[2] + m[1] * m[3]) / np.where(length > 0, length, np.nan)

        found.append(Beyond(alpha, bootstrap.statistic(values, share)))
    return found


def dominated(x: Floats, y: Floats) -> Floats:
    """Area dominated by points (x, y), shape (points, draws) each, smaller being better, reference (1, 1)."""
    order = np.argsort(x, axis=0, kind="stable")
    xs = np.take_along_axis(x, order, axis=0)
    best = np.minimum.accumulate(np.take_along_axis(y, order, axis=0), axis=0)
    right = np.concatenate([xs[1:], np.ones_like(xs[:1])])
    area: Floats = ((right - xs) * (1 - best)).sum(axis=0)
    return area


def hypervolume(counts: Counts, bootstrap: Bootstrap) -> Hypervolume:
    """Needs alpha 0 and 1."""
    bad = counts.rate(FMT)
    values = np.concatenate([counts.rate(OPT) + bad, counts.rate(COR) + bad])
    size = len(counts.alphas)

    def of(alphas: Sequence[float]) -> list[int]:
        return [counts.at(a) for a in alphas]

    def area(m: Floats, rows: list[int]) -> Floats:
        return dominated(m[rows], m[[size + r for r in rows]])

    trained, middle, wide = of((LOW, HIGH)), of(inside(counts, LOW, HIGH)), of(inside(counts, *STABLE))

    def gain(m: Floats) -> Floats:
        return area(m, wide) - area(m, middle)

    found = bootstrap.statistic(values, gain)
    return Hypervolume(
        bootstrap.statistic(values, lambda m: area(m, trained)),
        bootstrap.statistic(values, lambda m: area(m, middle)),
        bootstrap.statistic(values, lambda m: area(m, wide)),
        found,
        float(gain(values @ bootstrap.weights.T).mean() - found.value),
    )


def stable_range(counts: Counts, bootstrap: Bootstrap, limit: float = FORMAT_LIMIT) -> StableRange:
    """Needs alpha 0 and 1."""
    rates = dict(zip(counts.alphas, bootstrap.means(counts.rate(FMT))))
    likely = {a for a, rate in rates.items() if rate.value <= limit}
    sure = {a for a in likely if rates[a].known and rates[a].high <= limit}
    return StableRange(limit, _reach(counts, likely), _reach(counts, sure))


def _reach(counts: Counts, good: set[float]) -> tuple[float, float] | None:
    """Outermost alphas reached from [0, 1] through good ones only."""
    if not good.issuperset(inside(counts, LOW, HIGH)):
        return None
    low, high = LOW, HIGH
    for alpha in counts.alphas[::-1]:
        if alpha < LOW:
            if alpha not in good:
                break
            low = alpha
    for alpha in counts.alphas:
        if alpha > HIGH:
            if alpha not in good:
                break
            high = alpha
    return low, high


def flatness(counts: Counts, bootstrap: Bootstrap, margin: float = FLAT_MARGIN) -> Flatness | None:
    """None with fewer than two alphas in [-0.5, 1.5] or fewer than two problems."""
    from scipy.special import stdtr

    alphas, problems = inside(counts, *STABLE), len(counts.problem_ids)
    if len(alphas) < 2 or problems < 2:
        return None
    rate = counts.rate(OK)
    pairs = list(combinations(alphas, 2))
    differences = np.stack([rate[counts.at(b)] - rate[counts.at(a)] for a, b in pairs])  # (pairs, P)
    means = differences.mean(axis=1)
    errors = differences.std(axis=1, ddof=1) / math.sqrt(problems)
    room = margin - np.abs(means)
    # Differences that are the same for all problems are exact: p is 0 or 1.
    t = np.divide(-room, errors, out=np.where(room > 0, -np.inf, np.inf), where=errors > 0)
    p_values = stdtr(problems - 1, t)
    furthest = int(np.abs(means).argmax())
    largest = bootstrap.mean(differences[furthest])
    return Flatness(margin, largest, pairs[furthest], float(p_values.max()))
