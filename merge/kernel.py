"""The arithmetic of a merge on one chunk of elements, and its statistics. Nothing here knows of files.

theta = alpha * high + (1 - alpha) * low, computed as `torch.lerp(low, high, alpha)`: in float32 when the
inputs and the output share one 16-bit dtype, else in float64. Alpha 0 and 1 are exact copies. Against a
float64 reference the result is within one unit in the last place of the output dtype, except where
alpha * high and (1 - alpha) * low nearly cancel; there the error stays below 2^-20 of their size (2^-49
in float64).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from cef_env.errors import UserError

DTYPES = {
    "BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64,
    "I64": torch.int64, "I32": torch.int32, "BOOL": torch.bool,
}  # fmt: skip
"""safetensors name -> torch dtype."""

# Exponent mask of each float dtype seen as an integer: a value is finite iff its magnitude bits are below it.
_FINITE: dict[torch.dtype, tuple[torch.dtype, int, int]] = {
    torch.bfloat16: (torch.int16, 0x7FFF, 0x7F80),
    torch.float16: (torch.int16, 0x7FFF, 0x7C00),
    torch.float32: (torch.int32, 0x7FFFFFFF, 0x7F800000),
    torch.float64: (torch.int64, 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000),
}


def blend(low: torch.Tensor, high: torch.Tensor, alpha: float, dtype: torch.dtype) -> torch.Tensor:
    """alpha * high + (1 - alpha) * low in `dtype`; shapes equal, result of the same shape."""
    if alpha in (0.0, 1.0):
        return (high if alpha == 1.0 else low).to(dtype)
    if low.dtype == high.dtype == dtype and low.dtype.itemsize == 2:
        return torch.lerp(low, high, alpha)  # torch computes this in float32 and rounds once
    return torch.lerp(low.double(), high.double(), alpha).to(dtype)


def all_finite(values: torch.Tensor) -> bool:
    """Whether there is no NaN and no infinity; by an integer view, far cheaper than `isfinite`."""
    if values.numel() == 0:
        return True
    integer, mask, limit = _FINITE[values.dtype]
    return int((values.contiguous().view(integer) & mask).max()) < limit


def require_finite(values: torch.Tensor, what: str, remedy: str) -> None:
    """Raise a `UserError` unless every value is finite."""
    if not all_finite(values):
        raise UserError(f"{what} holds NaN or infinity; {remedy}")


class Difference:
    """high - low on one chunk (one axis), computed once for all alphas.

    16-bit inputs are compared in float32, which holds their differences to 2^-24; sums over a chunk are
    then added in float64.
    """

    def __init__(self, low: torch.Tensor, high: torch.Tensor) -> None:
        wide = torch.float32 if low.dtype.itemsize == 2 else torch.float64
        self.low, self.high = low, high
        self.base = low.to(wide)
        self.delta = high.to(wide) - self.base
        self.norm = float(torch.dot(self.delta, self.delta))
        self.unchanged = _equal(low, high)


def _equal(a: torch.Tensor, b: torch.Tensor) -> int:
    """Number of elements that are equal bit for bit; dtypes equal. numpy, because torch is slow at this."""
    integer = _FINITE[a.dtype][0]
    return int(np.count_nonzero(a.view(integer).numpy() == b.view(integer).numpy()))


@dataclass
class Stats:
    """What one alpha did to the weights, accumulated over chunks."""

    elements: int = 0
    unchanged: int = 0
    """Elements where low and high are equal."""
    equal_low: int = 0
    equal_high: int = 0
    """Elements where the merged value equals high's (after rounding)."""
    dot: float = 0.0
    """<merged - low, high - low>"""
    norm: float = 0.0
    """||high - low||^2"""

    def add(self, difference: "Difference", merged: torch.Tensor) -> None:
        """Add one chunk; `merged` has its shape, in the dtype that is written."""
        low, high = difference.low, difference.high
        same = merged.dtype == low.dtype
        wide = merged.to(difference.delta.dtype)
        self.elements += low.numel()
        self.unchanged += difference.unchanged
        self.equal_low += _equal(merged, low) if same else _equal(wide, difference.base)
        self.equal_high += _equal(merged, high) if same else _equal(wide, high.to(wide.dtype))
        self.dot += float(torch.dot(wide - difference.base, difference.delta))
        self.norm += difference.norm

    def merge(self, other: "Stats") -> None:
        for name in ("elements", "unchanged", "equal_low", "equal_high", "dot", "norm"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def summary(self) -> dict[str, float | int | None]:
        """JSON: `effective_alpha` is None when low equals high everywhere."""
        effective = self.dot / self.norm if self.norm > 0 else math.nan
        return {
            "elements": self.elements,
            "effective_alpha": None if math.isnan(effective) else effective,
            "frac_unchanged": self.unchanged / self.elements,
            "frac_equal_low": self.equal_low / self.elements,
            "frac_equal_high": self.equal_high / self.elements,
        }
