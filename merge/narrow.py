"""low + alpha * (high - low) of two sources of one 16-bit dtype: in float32, rounded once.

float32 has so many bits more than the sources that only a few elements need more, those where the terms
cancel nearly all. They are found by how far the result lies below low, and computed again exactly.
"""

import math

import torch

from cef_env.merge.bits import (
    all_finite,
    cancelled,
    largest_magnitude,
    magnitude_bits,
    signed_bits,
    stored_bits,
)
from cef_env.merge.exact import exact_sum
from cef_env.merge.scratch import Scratch

_STEP = 1 << 17
"""Elements of one step: what it works on stays in the processor's cache."""


def merge_narrow(
    low: torch.Tensor, high: torch.Tensor, alpha: float, out: torch.Tensor, scratch: Scratch
) -> bool:
    """Fill `out` (one axis, contiguous, as `low` and `high`); whether all of it is finite."""
    octaves = octaves_allowed(alpha, out.dtype)
    if octaves is None:
        torch.lerp(low, high, alpha, out=out)
    else:
        _sum(low, high, alpha, out, scratch)
    if not all_finite(out):  # or only float32 overflowed on the way
        out.copy_(exact_sum((low, high), (1.0 - alpha, alpha)).to(out.dtype))
        return all_finite(out)
    if octaves is not None:
        bits = magnitude_bits(out, scratch)
        at = cancelled(bits, signed_bits(low), largest_magnitude(low), octaves << stored_bits(out.dtype))
        if at is not None:
            out[at] = exact_sum((low[at], high[at]), (1.0 - alpha, alpha)).to(out.dtype).to(out.device)
    return True


def _sum(low: torch.Tensor, high: torch.Tensor, alpha: float, out: torch.Tensor, scratch: Scratch) -> None:
    """(low + coarse * (high - low)) + fine * (high - low) in float32, see `octaves_allowed`."""
    coarse = _coarse(alpha)
    fine = alpha - coarse
    step = _STEP if low.device.type == "cpu" else max(1, low.numel())
    bases = scratch.get("base", low[:step], torch.float32)
    differences = scratch.get("difference", low[:step], torch.float32)
    for left, right, target in zip(low.split(step), high.split(step), out.split(step)):
        base, difference = bases[: len(left)], differences[: len(left)]
        difference.copy_(right).sub_(base.copy_(left))
        target.copy_(base.add_(difference, alpha=coarse).add_(difference, alpha=fine))


def _coarse(alpha: float) -> float:
    """The eight leading bits of `alpha`."""
    fraction, exponent = math.frexp(alpha)
    return math.ldexp(round(fraction * 256), exponent - 8)


def octaves_allowed(alpha: float, dtype: torch.dtype) -> int | None:
    """How many octaves below low a result of float32 may lie and still be within one unit; None: any.

    With d = high - low, c the eight leading bits of alpha and f the rest, |f| <= 2^-8 |alpha|, the result is
    r = (low + c d) + f d, and |alpha d| <= |low| + |r| whatever alpha is. Each rounding costs u = 2^-24 of
    what is rounded. Rounding f, f d and the sums costs less than u (2^-7 |alpha d| + 2.1 |r|). Rounding d,
    c d and low + c d costs up to u (2 |alpha d|) more, which is too little to matter while |r| >= 2^-9 |low|.
    Below that, high / low is (alpha - 1) / alpha within 2^-9 / |alpha - 1|, so d is less than 174 times the
    smaller of the two in bfloat16 (19 times in float16) unless alpha is very near 0 or 1: a multiple of the
    smaller one's unit with at most 16 bits. Times eight bits it fits into 24, and its sum with low, which
    cancels, does too: they are exact.

    The error must be below half a unit in the last place, which is 2^-(stored+2) |r| or more. So |low| / |r|
    may be 2^(31-9) in bfloat16, 2^(31-12) in float16, and 2^8 less for alphas very near 0 or 1. One octave
    covers what is left out: the bits of the rounded result tell its logarithm within 0.18. Where f = 0 for
    alpha and for 1 - alpha (all multiples of 1/64 up to 2), nothing of this is left and `lerp` does as well.
    Below the smallest normal number units no longer shrink: what is exact enough above it is so there.
    """
    stored = stored_bits(dtype)
    near = 2.0**-4 if dtype == torch.float16 else 2.0**-7
    if abs(alpha) <= near or abs(1.0 - alpha) <= near:
        return 20 - stored
    return None if _coarse(alpha) == alpha and _coarse(1.0 - alpha) == 1.0 - alpha else 28 - stored
