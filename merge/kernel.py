"""The arithmetic of a merge on one chunk of elements: numpy arrays in, numpy arrays out, no files.

theta = sum_i w_i * theta_i. Every element is the float64 nearest to that sum, however much cancels in it,
rounded to the dtype that is written; weights of 0 and 1 copy. bfloat16, which numpy does not know, is held
as the uint16 of the same bits.

Does *not* draw random numbers: see `stochastic.py`.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from cef_env.errors import UserError
from cef_env.merge.arithmetic import (
    INFINITY,
    TOGETHER,
    exact_octaves,
    from_bfloat16,
    from_float16,
    merge_bfloat16,
    merge_float16,
    to_bfloat16,
    to_float16,
    weighted_sum,
)

if TYPE_CHECKING:
    from cef_env.merge.stochastic import Noise

STORED: dict[str, np.dtype[Any]] = {
    "BF16": np.dtype(np.uint16), "F16": np.dtype(np.float16), "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64), "I64": np.dtype(np.int64), "I32": np.dtype(np.int32),
    "BOOL": np.dtype(np.bool_),
}  # fmt: skip
"""safetensors name -> dtype of the array that holds it."""

BLOCK = 1 << 15
"""Elements that share one stream of random numbers, and one unit of the statistics."""

_STEP = 1 << 13
"""Elements whose pairs of float64 are worked on together, so that they stay in the processor's cache."""

_NEAR = 2.0**-20
"""To alpha 1: `merge_bfloat16` is exact enough only further away."""

_INFINITY = {"BF16": INFINITY, "F16": 0x7C00, "F32": 0x7F800000, "F64": 0x7FF0000000000000}
_NAMES = {dtype: name for name, dtype in STORED.items() if name in _INFINITY}


def widen(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """`values` of any float dtype as float64, in `out` or a new array; exact."""
    wide = np.empty(values.size) if out is None else out
    if values.dtype == STORED["BF16"]:
        from_bfloat16(values, wide)
    elif values.dtype == STORED["F16"]:
        from_float16(values.view(np.uint16), wide)
    else:
        with np.errstate(invalid="ignore"):  # a NaN stays one
            wide[:] = values
    return wide


def signed_bits(values: np.ndarray) -> np.ndarray:
    """The integers of the same bits, sharing memory; -0 differs from 0."""
    return values.view(f"i{values.itemsize}")


def all_finite(values: np.ndarray) -> bool:
    """Whether there is no NaN and no infinity; looks at integers, which is far cheaper than `isfinite`."""
    if not values.size:
        return True
    bits = signed_bits(values)
    # The largest without a sign is, if any has one, the largest of those.
    largest = max(int(bits.max()), int(bits.view(f"u{bits.itemsize}").max()) & int(np.iinfo(bits.dtype).max))
    return largest < _INFINITY[_NAMES[values.dtype]]


def require_finite(values: np.ndarray, what: str, remedy: str) -> None:
    """Raise a `UserError` unless every value is finite."""
    if not all_finite(values):
        raise UserError(f"{what} holds NaN or infinity; {remedy}")


class Chunk:
    """The same elements of every source, ready to be combined with several vectors of weights.

    `sources`: float arrays of one axis and one length; `dtype`: safetensors name of what is written.
    """

    def __init__(self, sources: Sequence[np.ndarray], dtype: str) -> None:
        self.sources, self.dtype = sources, dtype
        self._narrow = dtype in ("BF16", "F16") and all(source.dtype == STORED[dtype] for source in sources)

    def require_finite_sources(self, names: Sequence[str], what: str) -> None:
        """Raise a `UserError` that names the source with a NaN or an infinity.

        A finite sum of all sources, none with weight 0, shows as much: neither ever disappears in a sum.
        """
        for name, source in zip(names, self.sources):
            require_finite(source, f"{name}: {what}", "that checkpoint cannot be merged")

    def source(self, i: int) -> np.ndarray:
        """Source `i` in the dtype that is written."""
        if self.sources[i].dtype == STORED[self.dtype]:
            return self.sources[i]
        return self.merge([float(i == other) for other in range(len(self.sources))])[0]

    def merge(
        self, weights: Sequence[float], out: np.ndarray | None = None, noise: "Noise | None" = None
    ) -> tuple[np.ndarray, bool]:
        """(sum_i weights[i] * source_i, whether it is finite); `out` may be filled and returned.

        With `noise` each element is rounded to one of its two neighbours, without bias.
        """
        used = [(weight, source) for weight, source in zip(weights, self.sources) if weight != 0.0]
        if len(used) == 1 and used[0][0] == 1.0 and used[0][1].dtype == STORED[self.dtype]:
            return used[0][1], all_finite(used[0][1])
        merged = np.empty(len(used[0][1]), STORED[self.dtype]) if out is None else out
        if noise is None and self._is_fused(used):
            (_, low), (alpha, high) = used
            if self.dtype == "BF16":
                largest = merge_bfloat16(low, high, (alpha,), (merged,), exact_octaves(alpha))
            else:
                low, high, bits = (values.view(np.uint16) for values in (low, high, merged))
                largest = merge_float16(low, high, alpha, bits)
            return merged, bool(largest < _INFINITY[self.dtype])
        step = _STEP if noise is None else BLOCK
        for start in range(0, len(merged), step):
            part = slice(start, start + step)
            total = _sum([(weight, source[part]) for weight, source in used])
            if noise is None:
                round_to_nearest(total, merged[part])
            else:
                noise.round(total, merged[part], start // BLOCK)
        return merged, all_finite(merged)

    def merge_each(
        self,
        weights: Sequence[Sequence[float]],
        outs: Sequence[np.ndarray],
        noises: "Sequence[Noise | None]",
    ) -> list[tuple[np.ndarray, bool]]:
        """`merge(weights[i], outs[i], noises[i])` for every i, for less than one by one costs."""
        groups: dict[bool, list[int]] = {True: [], False: []}
        for i, (each, noise) in enumerate(zip(weights, noises)):
            if noise is None and self.dtype == "BF16" and self._is_fused(list(zip(each, self.sources))):
                groups[exact_octaves(each[1]) >= 0].append(i)
        finite: dict[int, bool] = {}
        for group in groups.values():
            for start in range(0, len(group), TOGETHER):
                finite |= self._merge_fused(weights, outs, group[start : start + TOGETHER])
        return [
            (outs[i], finite[i]) if i in finite else self.merge(weights[i], outs[i], noises[i])
            for i in range(len(weights))
        ]

    def _merge_fused(
        self, weights: Sequence[Sequence[float]], outs: Sequence[np.ndarray], group: Sequence[int]
    ) -> dict[int, bool]:
        """Fill `outs[i]` for every i of `group`; whether each is finite."""
        low, high = self.sources
        alphas = tuple(weights[i][1] for i in group)
        octaves = min(map(exact_octaves, alphas))
        largest = merge_bfloat16(low, high, alphas, tuple(outs[i] for i in group), octaves)
        return {i: bool(largest < INFINITY) or all_finite(outs[i]) for i in group}

    def _is_fused(self, terms: Sequence[tuple[float, np.ndarray]]) -> bool:
        """Whether `merge_bfloat16` or `merge_float16` is exact for these weights and sources."""
        return (
            self._narrow and len(terms) == 2 and all(weight != 0.0 for weight, _ in terms)
            and abs(1.0 - terms[1][0]) > _NEAR
        )  # fmt: skip


def _sum(terms: Sequence[tuple[float, np.ndarray]]) -> np.ndarray:
    """The weighted sum in float64, rounded once; of two terms the first has what is missing to weight 1."""
    weights, more = [weight for weight, _ in terms], 0.0
    if len(terms) == 2:
        # 1 - alpha in two parts, so that nothing cancels twice.
        kept = 1.0 - weights[1]
        weights[0], more = kept, float(1 - Fraction(weights[1]) - Fraction(kept))
    values = np.empty((len(terms), terms[0][1].size))
    for row, (_, source) in zip(values, terms):
        widen(source, row)
    total = np.empty(values.shape[1])
    weighted_sum(values, np.array(weights), more, total)
    return total


def round_to_nearest(values: np.ndarray, out: np.ndarray) -> None:
    """Fill `out`, of any float dtype, with float64 `values`."""
    if out.dtype == STORED["BF16"]:
        to_bfloat16(values, out)
    elif out.dtype == STORED["F16"]:
        to_float16(values, out.view(np.uint16))
    else:
        with np.errstate(over="ignore"):  # is found in the result
            out[:] = values
