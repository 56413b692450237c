"""Weighted sums that lose nothing when they cancel, on arrays, compiled by numba.

Two bfloat16 need one fused operation. Everything else is a pair (total, rest) of float64 whose exact sum is
meant: products and sums are split into their rounded value and their rounding error (Dekker 1971, Knuth
TAOCP 4.2.2), so about 100 bits are kept, enough for whatever cancels.

Does *not* look for overflow: where a product overflows float64 the result is NaN.
"""

import numpy as np
from numba.extending import intrinsic

from cef_env.merge.compiling import compiled

INFINITY = 0x7F80
"""Bits of the bfloat16, and all bits of a bfloat16's exponent."""

_SIGN, _EXPONENT = np.uint64(1 << 63), np.uint64(0x7FF << 52)
"""Bits of a float64."""


@intrinsic
def _fma(context, a, b, c):  # type: ignore[no-untyped-def]
    """a * b + c, rounded once; all float32 or all float64."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.fma(*arguments)

    return a(a, b, c), generate


@compiled()
def _upper_half(bits):  # type: ignore[no-untyped-def]
    """Bits of the bfloat16 nearest to the float32 with these bits, ties to even."""
    # numba gives integers 64 bits unless told otherwise; of 32 the processor does twice as many at once.
    tie = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
    return np.uint32(np.uint32(bits + np.uint32(0x7FFF) + tie) >> np.uint32(16))


@compiled()
def _bfloat16(value):  # type: ignore[no-untyped-def]
    """Bits of the bfloat16 nearest to the float64 `value`, ties to even; infinity where it is too large.

    Next to 1.5 * 2^45 times its octave, float64 has the steps that bfloat16 has next to `value`: adding that
    rounds, taking it away is exact. Below 2^-126 the steps of bfloat16 get no smaller, from 2^128 on there
    are none. What is left is a bfloat16, which float32 holds.
    """
    bits = np.float64(value).view(np.uint64)
    octave = min(max(np.uint64(bits & _EXPONENT).view(np.float64), 2.0**-126), 2.0**128)
    near = octave * (1.5 * 2.0**45)
    # A sum that is zero has lost the sign.
    nearest = np.uint64(np.float64((value + near) - near).view(np.uint64) | np.uint64(bits & _SIGN))
    return np.uint32(np.float32(nearest.view(np.float64)).view(np.uint32) >> np.uint32(16))


@compiled()
def _float32(bits):  # type: ignore[no-untyped-def]
    """The value of the bfloat16 with these bits."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


# Indices are unsigned, because signed ones may count from the end, and then nothing is vectorised.
@compiled()
def _merge64(low, high, alphas, outs, start, size):  # type: ignore[no-untyped-def]
    """The largest of the magnitude bits of what elements start to start + size of `outs` are filled with."""
    largest = np.uint32(0)
    for k in range(size):
        i = start + np.uint64(k)
        base = np.float64(_float32(low[i]))
        delta = np.float64(_float32(high[i])) - base
        for j in range(len(alphas)):
            bits = _bfloat16(_fma(alphas[j], delta, base))
            outs[j][i] = np.uint16(bits)
            largest = max(largest, np.uint32(bits & np.uint32(0x7FFF)))
    return largest


@compiled()
def _merge32(low, high, alphas, outs, start, size):  # type: ignore[no-untyped-def]
    """As `_merge64`; and how many octaves the exponents of `low` and `high` are apart at most."""
    largest, apart = np.uint32(0), np.uint32(0)
    for k in range(size):
        i = start + np.uint64(k)
        left, right = np.uint32(low[i] & np.uint32(INFINITY)), np.uint32(high[i] & np.uint32(INFINITY))
        apart = max(apart, np.uint32(max(left, right) - min(left, right)))
        base = _float32(low[i])
        delta = _float32(high[i]) - base
        for j in range(len(alphas)):
            bits = _upper_half(np.float32(_fma(np.float32(alphas[j]), delta, base)).view(np.uint32))
            outs[j][i] = np.uint16(bits)
            largest = max(largest, np.uint32(bits & np.uint32(0x7FFF)))
    return largest, np.int64(apart >> np.uint32(7))


TOGETHER = 6
"""Alphas at most that one call of `merge_bfloat16` takes; more at once are hardly faster."""

_BLOCK = 512


@compiled(
    [
        f"uint32(uint16[::1], uint16[::1], UniTuple(float64, {n}), UniTuple(uint16[::1], {n}), int64)"
        for n in range(1, TOGETHER + 1)
    ]
)
def merge_bfloat16(
    low: np.ndarray, high: np.ndarray, alphas: tuple[float, ...], outs: tuple[np.ndarray, ...], octaves: int
) -> np.uint32:
    """Fill `outs[j]` with low + alphas[j] * (high - low), all bfloat16 as uint16, one axis, equal lengths.

    Blocks in which the exponents of `low` and `high` are at most `octaves` apart (see `exact_octaves`; -1:
    none) are computed in float32, where nothing is lost. Else the difference of two bfloat16 that are less
    than 2^45 apart has at most 53 bits, so float64 holds it, and the rest is one operation with one rounding.
    Further apart its error is 2^-53 of the larger: too little to matter unless alpha is so near 1 that `low`
    vanishes. Give such alphas to `weighted_sum`.

    Returns the largest of the magnitude bits of all `outs`: they are finite iff that is below `INFINITY`.
    """
    if octaves < 0:
        return _merge64(low, high, alphas, outs, np.uint64(0), low.size)
    largest = np.uint32(0)
    for block in range((low.size + _BLOCK - 1) // _BLOCK):
        start, size = np.uint64(block) * np.uint64(_BLOCK), min(_BLOCK, low.size - block * _BLOCK)
        top, apart = _merge32(low, high, alphas, outs, start, size)
        if top >= INFINITY or apart > octaves:
            top = _merge64(low, high, alphas, outs, start, size)
        largest = max(largest, top)
    return largest


def exact_octaves(alpha: float) -> int:
    """How far apart exponents may be for alpha to be exact in float32; -1 where that is too rare to try.

    With alpha = A / F, F a power of two, and g the unit in the last place of the smaller of two bfloat16, the
    result is a multiple of g / F and smaller than 2^8 (F + 2|A|) 2^octaves of them; float32 holds 2^24.
    """
    numerator, denominator = alpha.as_integer_ratio()
    octaves = 16 - (denominator + 2 * abs(numerator) - 1).bit_length()
    return octaves if octaves >= 8 else -1


@compiled()
def _accumulate(total, rest, weight, values):  # type: ignore[no-untyped-def]
    """Add weight * values to the pairs."""
    for k in range(values.size):
        i = np.uint64(k)
        before, product = total[i], weight * values[i]
        after = before + product
        shift = after - before
        lost = (before - (after - shift)) + (product - shift)
        total[i], rest[i] = after, rest[i] + (lost + _fma(weight, values[i], -product))


@compiled("void(float64[:, ::1], float64[::1], float64, float64[::1])")
def weighted_sum(values: np.ndarray, weights: np.ndarray, more: float, out: np.ndarray) -> None:
    """Fill `out` with sum_i weights[i] * values[i] + more * values[0], all float64, rounded once.

    `values`: (terms, elements); `weights`: (terms,); `out`: (elements,).
    """
    total, rest = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, out.size, _BLOCK):
        part = out[start : start + _BLOCK]
        total[:], rest[:] = 0.0, 0.0
        for i in range(len(weights)):
            _accumulate(total, rest, weights[i], values[i, start : start + _BLOCK])
            if i == 0 and more != 0.0:
                _accumulate(total, rest, more, values[i, start : start + _BLOCK])
        for k in range(part.size):
            at = np.uint64(k)
            part[at] = total[at] + rest[at]


@compiled("void(float64[::1], uint16[::1])")
def to_bfloat16(values: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (bfloat16 as uint16) with float64 `values`; infinite where they are too large."""
    for i in range(values.size):
        out[i] = np.uint16(_bfloat16(values[i]))


@compiled("void(uint16[::1], float64[::1])")
def from_bfloat16(values: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (float64) with the bfloat16 that uint16 `values` hold."""
    for i in range(values.size):
        out[i] = np.float64(_float32(values[i]))


@compiled()
def _float16(value):  # type: ignore[no-untyped-def]
    """Bits of the float16 nearest to the float64 `value`, ties to even; infinite where too large or NaN.

    As `_bfloat16`, with three more bits and the smallest step 2^-24.
    """
    bits = np.float64(value).view(np.uint64)
    near = max(np.uint64(bits & _EXPONENT).view(np.float64), 2.0**-14) * (1.5 * 2.0**42)
    size = abs((value + near) - near)
    size = size if size < 65536.0 else 65536.0  # what the bits of infinity would stand for
    single = np.float32(size).view(np.uint32)  # its exponent is greater by 112
    normal = np.uint32(np.uint32(single - np.uint32(112 << 23)) >> np.uint32(13))
    magnitude = normal if size >= 2.0**-14 else np.uint32(np.int32(size * 2.0**24))
    return np.uint32(magnitude | np.uint32(np.uint64(bits >> np.uint64(48)) & np.uint64(0x8000)))


@compiled()
def _from_float16(bits):  # type: ignore[no-untyped-def]
    """The value of the float16 with these bits, as float64."""
    magnitude, sign = np.uint32(bits & np.uint16(0x7FFF)), np.uint32(bits & np.uint16(0x8000))
    # The exponent of a float32 is greater by 112, of infinity and NaN by twice as much.
    more = np.uint32(224 << 23) if magnitude >= np.uint32(0x7C00) else np.uint32(112 << 23)
    normal = np.uint32(np.uint32(magnitude << np.uint32(13)) + more)
    subnormal = np.float32(np.float32(np.int32(magnitude)) * np.float32(2.0**-24)).view(np.uint32)
    single = normal if magnitude >= np.uint32(0x400) else subnormal
    return np.float64(np.uint32(single | np.uint32(sign << np.uint32(16))).view(np.float32))


@compiled("uint32(uint16[::1], uint16[::1], float64, uint16[::1])")
def merge_float16(low: np.ndarray, high: np.ndarray, alpha: float, out: np.ndarray) -> np.uint32:
    """Fill `out` with low + alpha * (high - low), all the bits of float16, one axis, equal lengths.

    float64 holds every difference of two float16, and the rest is one operation with one rounding.
    Returns the largest of the magnitude bits: `out` is finite iff that is below 0x7C00.
    """
    largest = np.uint32(0)
    for i in range(low.size):
        base = _from_float16(low[i])
        bits = _float16(_fma(alpha, _from_float16(high[i]) - base, base))
        out[i] = np.uint16(bits)
        largest = max(largest, np.uint32(bits & np.uint32(0x7FFF)))
    return largest


@compiled("void(float64[::1], uint16[::1])")
def to_float16(values: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (the bits of float16) with float64 `values`; infinite where too large or NaN."""
    for i in range(values.size):
        out[i] = np.uint16(_float16(values[i]))


@compiled("void(uint16[::1], float64[::1])")
def from_float16(values: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (float64) with the float16 that have the bits `values`."""
    for i in range(values.size):
        out[i] = _from_float16(values[i])
