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


@dataclass(frozen=True, slots=True)
class Error:
    """A standard error with its degrees of freedom."""

    standard: float
    freedom: float

    @classmethod
    def of_mean(cls, values: Floats) -> "Error":
        """Of the mean of independent values, shape (units,)."""
        units = len(values)
        return cls(float(values.std(ddof=1)) / math.sqrt(units), units - 1) if units > 1 else NO_ERROR

    @classmethod
    def of_jackknife(cls, values: Floats, function: Callable[[Floats], Floats]) -> "Error":
        """Of `function` of the means of the rows of `values`, shape (A, units)."""
        units = values.shape[1]
        if units < 2:
            return NO_ERROR
        without = function((values.sum(axis=1)[:, None] - values) / (units - 1))  # (units,)
        return cls(math.sqrt((units - 1) * float(np.var(without))), units - 1)

    def __add__(self, other: "Error") -> "Error":
        """Of a sum of independent parts; degrees of freedom by Satterthwaite (1946)."""
        total = self.standard**2 + other.standard**2
        if total == 0 or not math.isfinite(total):  # what is not known of a part is not known of the sum
            return Error(math.sqrt(total), 1.0)
        spread = self.standard**4 / self.freedom + other.standard**4 / other.freedom
        return Error(math.sqrt(total), total**2 / spread)


NO_ERROR = Error(0.0, 1.0)


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

    @property
    def problems(self) -> int:
        """P."""
        return self.weights.shape[1]

    def mean(self, values: Floats, level: float = LEVEL) -> Interval:
        """Mean over problems of `values`, shape (P,)."""
        return self._of_mean(values, self.weights @ values, level)

    def means(self, values: Floats) -> list[Interval]:
        """Mean over the last axis of `values`, shape (A, P): one interval per row, paired."""
        return [self._of_mean(v, draws, LEVEL) for v, draws in zip(values, values @ self.weights.T)]

    def statistic(self, values: Floats, function: Callable[[Floats], Floats]) -> Interval:
        """`function` of the means of the rows of `values`, shape (A, P).

        `function` maps means of shape (A, draws) to shape (draws,); it is called for the data and for the
        resamples, which is how ratios and maxima over members get their intervals.
        """
        value = float(function(values.mean(axis=1)[:, None])[0])
        error = self._jackknife(values, function)
        return interval(value, function(values @ self.weights.T), self.problems, error=error)

    def smoothed(self, draws: Floats) -> Interval:
        """Mean and percentiles of what was computed from each resample, shape (resamples,).

        The estimate is the mean over resamples, not the one value on the data: where two choices are nearly
        tied, the choice on the data alone turns on a single problem, and averaging smooths that jump (Efron
        2014, "Estimation and accuracy after model selection").
        """
        return interval(float(draws.mean()), draws, self.problems)

    def _of_mean(self, values: Floats, draws: Floats, level: float) -> Interval:
        found = interval(float(values.mean()), draws, self.problems, level, self._standard_error(values))
        if values.min() >= 0 and values.max() <= 1:  # a rate or a chance: so is its mean
            low, high = max(found.low, 0.0), min(found.high, 1.0)
            return replace(found, low=low, high=high) if found.known else found
        return found

    def _standard_error(self, values: Floats) -> "Error":
        """Of the mean of `values`."""
        return Error.of_mean(values)

    def _jackknife(self, values: Floats, function: Callable[[Floats], Floats]) -> "Error":
        """Of `function` of the means of the rows of `values`."""
        return Error.of_jackknife(values, function)


def interval(
    value: float, draws: Floats, units: int, level: float = LEVEL, error: Error = NO_ERROR
) -> Interval:
    """Interval from bootstrap draws over `units` problems; without bounds when there are fewer than two.

    `error`: of the value, where it is known; then the t interval is contained.
    """
    if not math.isfinite(value):
        return Interval(math.nan, reason=UNDEFINED)
    if units < 2:
        return Interval(value, reason=ONE_PROBLEM)
    if not np.all(np.isfinite(draws)):
        return Interval(value, reason=UNDEFINED)
    tail = _tail(units, level)
    low, high = np.quantile(draws, [tail, 1 - tail])
    half = _t(error.freedom, level) * error.standard if math.isfinite(error.standard) else 0.0
    return Interval(value, min(float(low), value - half), max(float(high), value + half))


@cache
def _t(freedom: float, level: float) -> float:
    """Quantile of Student's t."""
    from scipy.special import stdtrit  # scipy.stats has the same and takes seconds to import

    return -float(stdtrit(freedom, (1 - level) / 2))


@cache
def _tail(units: int, level: float) -> float:
    """Tail of the expanded percentile interval over `units` problems."""
    from scipy.special import ndtr

    return float(ndtr(-math.sqrt(units / (units - 1)) * _t(units - 1, level)))
