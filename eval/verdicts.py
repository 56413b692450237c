"""How a claim is decided: the thresholds, and the three-way answer held / did not hold / cannot tell.

Every threshold was fixed before any result existed and is never tuned; each says why it is what it is.
The claims themselves are tested in `claims.py`.

The rule for a difference that should be positive: True when its 95% interval lies above 0; False when the
interval lies below the smallest change that would matter; None in between, where the run was too small.
A claim with several parts holds when all parts do and fails when any part does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cef_env.eval.intervals import Interval
from cef_env.eval.shape import FLAT_MARGIN

__all__ = ["FLAT_MARGIN", "Claim", "all_of", "exceeds", "negated", "shifted"]

LEAST_ENDS = 0.03
"""Between the two trained checkpoints: three answers in a hundred. The paper speaks of a frontier, which
one could not see in a figure if its ends were closer than that."""
LEAST_BEYOND = 0.015
"""Beyond an endpoint: half of the above, because [-0.5, 0] and [1, 1.5] are half as long as [0, 1]."""
LEAST_PASS = 0.01
"""For pass@k at equal budget: a third of the gain of 3.3% that the paper reports for its ensemble."""
LEAST_TURNOVER = 0.02
"""For a Jaccard index: two draws of one policy already differ by a few hundredths from run to run."""
SEGMENT_MARGIN = 0.05
"""How far an interpolated point may lie behind the segment between the endpoints, in units of rate
(Euclidean distance in the plane of the two failures): half of what claim `flat` calls unchanged
(`FLAT_MARGIN`)."""
MOST = 0.5
"""`Most of` means more than half."""
FAR = 2.0
"""The paper sees quality fall beyond |alpha| of 2. A sweep that ends earlier cannot refute that."""
MIN_PROBLEMS = 20
"""With fewer problems the intervals rest on too few units to be trusted, so nothing is decided."""


@dataclass(frozen=True)
class Claim:
    """One claim on one split."""

    id: str
    paper: str
    """The claim, in our words."""
    split: str
    held: bool | None
    measured: dict[str, Interval] = field(default_factory=dict)
    """What was measured -> the number with its interval."""
    reason: str = ""
    """Why it cannot be told, or what to keep in mind."""


PAPER = {
    "coverage": "More test coverage in the reward moves a checkpoint along a frontier: fewer optimization "
    "failures, more correctness failures.",
    "interpolation": "Averages inside [0, 1] walk the frontier between the trained checkpoints, in order.",
    "extrapolation": "Averages just outside [0, 1] continue the frontier beyond both trained checkpoints.",
    "breakdown": "Far outside, quality falls mainly because of format errors.",
    "breakdown_cause": "The format errors far outside are mainly answers that ran out of tokens.",
    "turnover": "Which problems are solved changes along alpha.",
    "ensemble": "An ensemble over several alphas beats the best single one at the same sample budget.",
    "extended_pool": "Extrapolated members make the ensemble better than interpolated ones alone do.",
    "flat": "On hard problems the solve rate stays nearly the same for alpha in [-0.5, 1.5].",
}
"""Claim id -> the paper's claim in our words, in the order of the report."""


def exceeds(difference: Interval, least: float, room: float = 1.0) -> bool | None:
    """Whether a difference is positive: True above 0, False below `least`, None when it may be either.

    `room` is how large the difference could be at all; where that is less than `least`, failing to exceed
    proves nothing, so only a difference below 0 gives False.
    """
    if not difference.known:
        return None
    if difference.low > 0:
        return True
    if difference.high < 0:
        return False
    return False if difference.high < least <= room else None


def all_of(parts: Sequence[bool | None]) -> bool | None:
    """False if any part is False, else None if any is None, else True."""
    if any(part is False for part in parts):
        return False
    return None if any(part is None for part in parts) else True


def negated(x: Interval) -> Interval:
    return Interval(-x.value, -x.high, -x.low)


def shifted(x: Interval, by: float) -> Interval:
    return Interval(x.value + by, x.low + by, x.high + by)
