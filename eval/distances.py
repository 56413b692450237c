"""How far a checkpoint lies from the curve of the averages of two others, in the plane of the failures."""

import numpy as np
from numpy.typing import NDArray

from cef_env.eval.counts import Counts
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.judge.types import Outcome

Floats = NDArray[np.float64]


def distance_to_curve(
    sweep: Counts, beside: Counts, label: str, between: tuple[float, float], bootstrap: Bootstrap
) -> Interval:
    """Of one checkpoint to the line through the alphas between two, in the plane of the failures; positive on
    the side of the origin."""
    rows = [i for i, alpha in enumerate(sweep.alphas) if between[0] <= alpha <= between[1]]
    own = next(i for i, member in enumerate(beside.members) if member.label == label)
    opt, cor = Outcome.OPTIMIZATION_FAILURE, Outcome.CORRECTNESS_FAILURE
    values = np.concatenate(
        [sweep.rate(opt)[rows], sweep.rate(cor)[rows], beside.rate(opt)[[own]], beside.rate(cor)[[own]]]
    )
    return bootstrap.statistic(values, lambda means: signed_distance(means, len(rows)))


def signed_distance(means: Floats, points: int) -> Floats:
    """`means` (2 * points + 2, draws): the two rates of the line, then those of the checkpoint."""
    line = np.stack([means[:points], means[points : 2 * points]])  # (2, points, draws)
    at = means[2 * points :][:, None]  # (2, 1, draws)
    step = np.diff(line, axis=1)
    start = line[:, :-1]
    square = (step**2).sum(axis=0)
    share = ((at - start) * step).sum(axis=0) / np.where(square > 0, square, 1)
    offset = at - (start + np.clip(share, 0, 1) * step)  # (2, points - 1, draws)
    length = np.hypot(*offset)
    nearest = length.argmin(axis=0)[None]
    # The line goes from low to high: with the origin on its left, the cross product is negative there.
    cross = offset[0] * step[1] - offset[1] * step[0]
    side = -np.sign(np.take_along_axis(cross, nearest, axis=0)[0])
    return side * np.take_along_axis(length, nearest, axis=0)[0]
