"""95% intervals by a bootstrap over problems, paired over members.

Problems are the units that were drawn at random, so problems are resampled, with all their answers; one
resampling serves every member and every statistic, so differences between members are paired (unpaired
intervals are several times too wide). Does not cover the randomness of training: for that, train several
seeds.

A plain percentile interval is too narrow for few problems, so two things are done about it (measured in
docs/evaluation.md):
- its tails are widened: means of P resampled problems spread by sqrt((P - 1) / P) too little, and normal
  quantiles stand where Student's t is needed, so each tail becomes Phi(-sqrt(P / (P - 1)) t_(tail, P-1))
  ("expanded percentile", Hesterberg 2015, "What teachers should know about the bootstrap");
- it is extended to contain the t interval (for statistics that are no means, with the standard error of the
  jackknife): where a few problems decide, resamples of them are skewed towards what they happen to show.

With fewer than two problems there is no interval, and it is NaN with a reason.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95
UNDEFINED = "not defined on these data, or on a part of their resamples"
ONE_PROBLEM = "an interval needs two problems"


@dataclass(frozen=True, slots=True)
class Interval:
    """A number measured, with its 95% interval; NaN where it does not exist."""

    value: float
    low: float = math.nan
    high: float = math.nan
    reason: str = field(default="", compare=False)
    """Why something is NaN; empty when nothing is."""

    @property
    def above_zero(self) -> bool:
        return self.low > 0

    @property
    def below_zero(self) -> bool:
        return self.high < 0

    @property
    def known(self) -> bool:
        return not math.isnan(self.low)

    def __str__(self) -> str:
        if math.isnan(self.value):
            return f"- ({self.reason})" if self.reason else "-"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]" if self.known else f"{self.value:.3f}"


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """One seeded resampling of P problems, used for every statistic of a split."""

    weights: Floats
    """Shape (resamples, P): how often each problem was drawn, divided by P; rows sum to 1."""

    @classmethod
    def over(cls, problems: int, seed: int = 0, resamples: int = RESAMPLES) -> "Bootstrap":
        rng = np.random.default_rng([seed, problems])
        counts = rng.multinomial(problems, np.full(problems, 1 / problems), size=resamples)
        return cls(counts / problems)

    def mean(self, values: Floats, level: float = LEVEL) -> Interval:
        """Mean over problems of `values`, shape (P,)."""
        return _of_mean(values, self.weights @ values, level)

    def means(self, values: Floats) -> list[Interval]:
        """Mean over the last axis of `values`, shape (A, P): one interval per row, paired."""
        return [_of_mean(v, draws) for v, draws in zip(values, values @ self.weights.T)]

    def statistic(self, values: Floats, function: Callable[[Floats], Floats]) -> Interval:
        """`function` of the means of the rows of `values`, shape (A, P).

        `function` maps means of shape (A, draws) to shape (draws,); it is called for the data and for the
        resamples, which is how ratios and maxima over members get their intervals.
        """
        units = values.shape[1]
        value = float(function(values.mean(axis=1)[:, None])[0])
        error = 0.0
        if units > 1:
            without = function((values.sum(axis=1)[:, None] - values) / (units - 1))  # (P,)
            error = math.sqrt((units - 1) * float(np.var(without)))
        return interval(value, function(values @ self.weights.T), units, error=error)


def _of_mean(values: Floats, draws: Floats, level: float = LEVEL) -> Interval:
    units = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(units) if units > 1 else 0.0
    found = interval(float(values.mean()), draws, units, level, error)
    if values.min() >= 0 and values.max() <= 1:  # a rate or a chance: so is its mean
        return replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0)) if found.known else found
    return found


def interval(value: float, draws: Floats, units: int, level: float = LEVEL, error: float = 0.0) -> Interval:
    """Interval from bootstrap draws over `units` problems; without bounds when there are fewer than two.

    `error`: standard error of the value, where it is known; then the t interval is contained.
    """
    if not math.isfinite(value):
        return Interval(math.nan, reason=UNDEFINED)
    if units < 2:
        return Interval(value, reason=ONE_PROBLEM)
    if not np.all(np.isfinite(draws)):
        return Interval(value, reason=UNDEFINED)
    t, tail = _quantiles(units, level)
    low, high = np.quantile(draws, [tail, 1 - tail])
    half = t * error if math.isfinite(error) else 0.0
    return Interval(value, min(float(low), value - half), max(float(high), value + half))


@cache
def _quantiles(units: int, level: float) -> tuple[float, float]:
    """Student's t over `units` problems at `level`, and the tail of the expanded percentile interval."""
    from scipy.special import ndtr, stdtrit  # scipy.stats has the same and takes seconds to import

    t = -float(stdtrit(units - 1, (1 - level) / 2))
    return t, float(ndtr(-math.sqrt(units / (units - 1)) * t))
