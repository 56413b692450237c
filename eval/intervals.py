"""95% intervals by a bootstrap over problems, paired over alpha.

Problems are the units that were drawn at random, so problems are resampled, with all their answers; one
resampling serves every alpha and every statistic, so differences between alphas are paired (unpaired
intervals are several times too wide). Percentile intervals; with fewer than two problems there is no
interval, and it is NaN. Does not cover the randomness of training: for that, train several seeds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A number measured, with its 95% interval; NaN where it does not exist."""

    value: float
    low: float = math.nan
    high: float = math.nan

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
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


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
        return interval(float(values.mean()), self.weights @ values, len(values), level)

    def means(self, values: Floats) -> list[Interval]:
        """Mean over the last axis of `values`, shape (A, P): one interval per row, paired."""
        draws = values @ self.weights.T
        return [interval(float(v.mean()), d, values.shape[1]) for v, d in zip(values, draws)]

    def statistic(self, values: Floats, function: Callable[[Floats], Floats]) -> Interval:
        """`function` of the means of the rows of `values`, shape (A, P).

        `function` maps means of shape (A, draws) to shape (draws,); it is called for the data and for the
        resamples, which is how ratios and maxima over alpha get their intervals.
        """
        value = float(function(values.mean(axis=1)[:, None])[0])
        return interval(value, function(values @ self.weights.T), values.shape[1])


def interval(value: float, draws: Floats, units: int, level: float = LEVEL) -> Interval:
    """Percentile interval of bootstrap draws; without bounds when there are fewer than two units."""
    if units < 2 or not math.isfinite(value) or not np.all(np.isfinite(draws)):
        return Interval(value)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))
