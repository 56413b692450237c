"""The arithmetic of a merge on one chunk of elements. Nothing here knows of files.

theta = sum_i w_i * theta_i. Two checkpoints of one 16-bit dtype are combined in float32, with alpha in two
parts; everything else in float64. Elements where the terms cancel so far that this could be seen after
rounding are computed again in twice float64's precision. So every element is within one unit in the last
place of the exact value, nearly all are the exact value rounded, and weights of 0 and 1 copy.

Does *not* promise more than a choice between the two neighbours for `stochastic` rounding.
"""

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch

from cef_env.errors import UserError

DTYPES = {
    "BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64,
    "I64": torch.int64, "I32": torch.int32, "BOOL": torch.bool,
}  # fmt: skip
"""safetensors name -> torch dtype."""

_EXACT = 99
"""Stands for any number of bits of precision."""

BLOCK = 1 << 15
"""Elements that share one stream of random numbers, and one unit of the statistics."""

_STEP = 1 << 17
"""Elements of one step of float32 arithmetic: what it works on stays in the processor's cache."""

# Each float dtype seen as an integer of its size: that integer, magnitude bits, bits of infinity, stored
# significand bits. A value is finite iff its magnitude bits are below those of infinity.
_LAYOUT: dict[torch.dtype, tuple[torch.dtype, int, int, int]] = {
    torch.bfloat16: (torch.int16, 0x7FFF, 0x7F80, 7),
    torch.float16: (torch.int16, 0x7FFF, 0x7C00, 10),
    torch.float32: (torch.int32, 0x7FFFFFFF, 0x7F800000, 23),
    torch.float64: (torch.int64, 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000, 52),
}


class Chunk:
    """The same elements of every source, ready to be combined with several vectors of weights.

    `sources`: float tensors of one shape on one device; results have that shape and `dtype`.
    """

    def __init__(
        self, sources: Sequence[torch.Tensor], dtype: torch.dtype, scratch: "Scratch | None" = None
    ) -> None:
        self.sources, self.dtype = sources, dtype
        self._scratch = scratch or Scratch()
        self._narrow = dtype.itemsize == 2 and all(source.dtype == dtype for source in sources)
        self._bits: dict[int, torch.Tensor] = {}

    def _buffer(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        return self._scratch.get(name, self.sources[0], dtype)

    def require_finite_sources(self, names: Sequence[str], what: str) -> None:
        """Raise a `UserError` that names the source with a NaN or an infinity.

        A finite sum of all sources, none with weight 0, shows as much: neither ever disappears in a sum.
        """
        for name, source in zip(names, self.sources):
            require_finite(source, f"{name}: {what}", "that checkpoint cannot be merged")

    def merge(
        self, weights: Sequence[float], out: torch.Tensor | None = None, noise: "Noise | None" = None
    ) -> tuple[torch.Tensor, bool]:
        """(sum_i weights[i] * source_i, whether it is finite); `out` may be filled and returned.

        With `noise` each element is rounded to one of its two neighbours, without bias.
        """
        used = [index for index, weight in enumerate(weights) if weight != 0.0]
        if len(used) == 1 and weights[used[0]] == 1.0:
            merged = self.sources[used[0]].to(self.dtype)
            return merged, all_finite(merged)
        chosen = [self.sources[index] for index in used]
        factors = [weights[index] for index in used]
        if noise is not None:
            merged = noise.round(_wide(chosen, factors), self.dtype)
            return merged, all_finite(merged)
        scale = max(1.0, math.fsum(abs(factor) for factor in factors))
        narrow = self._narrow and len(used) == 2
        digits = _digits_narrow(factors[1], self.dtype) if narrow else 53
        if digits == _EXACT:
            merged = torch.lerp(chosen[0], chosen[1], factors[1], out=out)
            return merged, _below_infinity(self._result_bits(merged), self.dtype)
        # Octaves between the largest source and a result for which `digits` bits of precision are enough:
        # the error is below 2^(2-digits) * scale * largest and must be below half a unit in the last place,
        # which is at least 2^-(stored+2) of the result. Magnitude bits differ as binary logarithms do,
        # within 0.18; two more octaves cover that.
        stored = _LAYOUT[self.dtype][3]
        octaves = digits - stored - 6 - math.ceil(math.log2(scale))
        if narrow:
            octaves -= 3  # for the reference
        if octaves <= 0:
            merged = _exact(chosen, factors).to(self.dtype).to(chosen[0].device)
            return merged, all_finite(merged)
        merged = self._narrow_sum(used, factors[1], out) if narrow else _wide(chosen, factors).to(self.dtype)
        bits = self._result_bits(merged)
        finite = _below_infinity(bits, self.dtype)
        reference = self._anchor(used, factors[1]) if narrow else self._largest(used)
        at = _above(_subtract(reference, bits).view(-1), octaves << stored)
        if at is not None:
            values = _exact([source.reshape(-1)[at] for source in chosen], factors)
            merged.view(-1)[at] = values.to(self.dtype).to(merged.device)
        return merged, finite

    def _result_bits(self, merged: torch.Tensor) -> torch.Tensor:
        return magnitude_bits(merged, self._buffer("bits", _LAYOUT[self.dtype][0]))

    def _source_bits(self, index: int) -> torch.Tensor:
        """Magnitude bits of a source as `dtype` sees it."""
        if index not in self._bits:
            buffer = self._buffer(f"bits {index}", _LAYOUT[self.dtype][0])
            self._bits[index] = magnitude_bits(self.sources[index].to(self.dtype), buffer)
        return self._bits[index]

    def _largest(self, used: list[int]) -> torch.Tensor:
        """Magnitude bits of the largest of the sources in use, element by element."""
        largest = self._buffer("largest", _LAYOUT[self.dtype][0]).copy_(self._source_bits(used[0]))
        for index in used[1:]:
            torch.maximum(largest, self._source_bits(index), out=largest)
        return largest

    def _anchor(self, used: list[int], alpha: float) -> torch.Tensor:
        """Magnitude bits of one of two sources, which tell nearly as well how far a result has cancelled.

        With d = high - low the result r is low + alpha d, so |d| <= (|low| + |r|) / |alpha|, and
        |high| <= |low| + |d|: no source is larger than 1 + 2/|alpha| times the larger of |low| and |r|. The
        same holds for high with 1 - alpha. Either |alpha| or |1 - alpha| is at least 1/2, so the factor is
        at most 5, less than three octaves.
        """
        return self._source_bits(used[0] if abs(alpha) >= 0.5 else used[1])

    def _narrow_sum(self, used: list[int], alpha: float, out: torch.Tensor | None) -> torch.Tensor:
        """low + alpha * (high - low) in float32, rounded once; alpha in two parts, see `_digits_narrow`."""
        low, high = (self.sources[index].reshape(-1) for index in used)
        merged = torch.empty_like(self.sources[used[0]]) if out is None else out
        coarse = _coarse(alpha)
        fine = alpha - coarse
        bases = self._scratch.get("base", low[:_STEP], torch.float32)
        differences = self._scratch.get("difference", low[:_STEP], torch.float32)
        for left, right, target in zip(*(flat.split(_STEP) for flat in (low, high, merged.view(-1)))):
            base = bases[: len(left)].copy_(left)
            difference = differences[: len(left)].copy_(right).sub_(base)
            target.copy_(base.add_(difference, alpha=coarse).add_(difference, alpha=fine))
        return merged


def _coarse(alpha: float) -> float:
    """The eight leading bits of `alpha`."""
    fraction, exponent = math.frexp(alpha)
    return math.ldexp(round(fraction * 256), exponent - 8)


def _digits_narrow(alpha: float, dtype: torch.dtype) -> int:
    """Bits of precision of `Chunk._narrow_sum`, relative to the larger source.

    The difference of two 16-bit floats whose exponents differ by g has 8 + g significant bits (11 + g in
    float16), so it can be multiplied by the eight bits of the coarse part of alpha without an error while
    g <= 8 (5); and the sum with low is exact where it cancels. What is left is the fine part, below
    2^-8 * alpha, with a relative error of 2^-24. The terms can cancel only if their exponents differ by
    no more than alpha's and (1 - alpha)'s: alphas very near 0 or 1 keep float32's own 24 bits. Where alpha
    and 1 - alpha have no fine part (all multiples of 1/64 up to 2), a sum that cancels is exact.
    """
    near = 2.0**-4 if dtype == torch.float16 else 2.0**-7
    if abs(alpha) > 2.0**8:
        return 0
    if abs(alpha) <= near or abs(1.0 - alpha) <= near:
        return 24
    return _EXACT if _coarse(alpha) == alpha and _coarse(1.0 - alpha) == 1.0 - alpha else 30


def _above(values: torch.Tensor, limit: int) -> torch.Tensor | None:
    """Where `values` (one axis) exceed `limit`; None when nowhere. Fast when that is rare."""
    whole = values.numel() // 512 * 512
    found = []
    for start, part in ((0, values[:whole].view(-1, 512)), (whole, values[whole:].view(1, -1))):
        if part.numel():
            largest = part.amax(dim=1)
            if int(largest.max()) > limit:
                rows = (largest > limit).nonzero().view(-1)
                row, column = (part[rows] > limit).nonzero(as_tuple=True)
                found.append(start + rows[row] * part.shape[1] + column)
    return torch.cat(found) if found else None


class Scratch:
    """Memory that one thread uses again for every chunk: fresh pages cost more than the arithmetic."""

    def __init__(self) -> None:
        self._held: dict[str, torch.Tensor] = {}

    def get(self, name: str, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A tensor of the shape and device of `like`, holding anything."""
        held = self._held.get(name)
        if held is None or held.numel() < like.numel() or (held.dtype, held.device) != (dtype, like.device):
            held = self._held[name] = torch.empty(like.numel(), dtype=dtype, device=like.device)
        return held[: like.numel()].view(like.shape)


def blend(low: torch.Tensor, high: torch.Tensor, alpha: float, dtype: torch.dtype) -> torch.Tensor:
    """alpha * high + (1 - alpha) * low in `dtype`, whether finite or not; shapes equal, any device."""
    return Chunk((low, high), dtype).merge((1.0 - alpha, alpha))[0]


def _wide(sources: Sequence[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    """The sum in float64; two sources as `lerp`, where the first has what is missing to weight 1."""
    if len(sources) == 2:
        return torch.lerp(sources[0].double(), sources[1].double(), weights[1])
    total = sources[0].double().mul_(weights[0])
    for source, weight in zip(sources[1:], weights[1:]):
        total.add_(source.double(), alpha=weight)
    return total


def _exact(sources: Sequence[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    """The sum with the precision of two float64 (Dekker's error-free product, Knuth's error-free sum)."""
    arrays = [source.cpu().double().numpy() for source in sources]
    factors = list(weights)
    if len(sources) == 2:  # the weight of the first is 1 - weights[1], of which a float64 is a rounding
        factors[0], rest = _two_sum(1.0, -weights[1])
        arrays.append(arrays[0])
        factors.append(rest)
    high = low = np.zeros_like(arrays[0])
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is found in the result
        for array, factor in zip(arrays, factors):
            product, product_error = _two_product(array, np.float64(factor))
            high, sum_error = _two_sum(high, product)
            low = low + (sum_error + product_error)
    return torch.from_numpy(np.asarray(high + low))


def _two_sum(a, b):  # type: ignore[no-untyped-def]  # floats or arrays
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _two_product(a: np.ndarray, b: np.float64) -> tuple[np.ndarray, np.ndarray]:
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a):  # type: ignore[no-untyped-def]  # float or array
    spread = a * 134217729.0  # 2^27 + 1
    high = spread - (spread - a)
    return high, a - high


class Noise:
    """Random numbers of stochastic rounding, for one tensor of one output from one block on.

    They depend on seed, output, tensor and position alone, so they do not change with shards, chunks,
    threads or a restart.
    """

    def __init__(self, seed: int, output: str, tensor: str, first_block: int) -> None:
        text = f"{seed}\0{output}\0{tensor}".encode()
        self._key = int.from_bytes(hashlib.sha256(text).digest()[:16], "little")
        self._block = first_block

    def round(self, values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """`values` (float64) in `dtype`: the neighbour above with the probability that its distance gives."""
        nearest = values.to(dtype)
        rest = values - nearest.double()
        toward = torch.where(rest > 0, math.inf, -math.inf).to(dtype)
        other = torch.nextafter(nearest, toward)
        share = rest.abs() / (other.double() - nearest.double()).abs()
        moved = torch.where(self._uniform(values.numel()) < share, other, nearest)
        return torch.where(rest == 0, nearest, moved)

    def _uniform(self, count: int) -> torch.Tensor:
        drawn = []
        for block in range(math.ceil(count / BLOCK)):
            stream = np.random.Philox(key=self._key, counter=[0, 0, self._block + block, 0])
            drawn.append(stream.random_raw(min(BLOCK, count - block * BLOCK)))
        return torch.from_numpy((np.concatenate(drawn) >> np.uint64(11)) * 2.0**-53)


def magnitude_bits(values: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """|values| as integers that are ordered as the values are; a new tensor, or `out`."""
    integer, mask, _, _ = _LAYOUT[values.dtype]
    bits = values.contiguous().view(integer)
    if out is None:
        out = torch.empty_like(bits)
    if bits.device.type != "cpu":
        return torch.bitwise_and(bits, mask, out=out)
    np.bitwise_and(bits.numpy(), mask, out=out.numpy())  # on 16-bit integers twice as fast as torch
    return out


def _subtract(bits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """bits - target, written over `target`."""
    if bits.device.type != "cpu":
        return torch.sub(bits, target, out=target)
    np.subtract(bits.numpy(), target.numpy(), out=target.numpy())
    return target


def _below_infinity(bits: torch.Tensor, dtype: torch.dtype) -> bool:
    return bits.numel() == 0 or int(bits.max()) < _LAYOUT[dtype][2]


def all_finite(values: torch.Tensor) -> bool:
    """Whether there is no NaN and no infinity; by an integer view, far cheaper than `isfinite`."""
    return _below_infinity(magnitude_bits(values), values.dtype)


def require_finite(values: torch.Tensor, what: str, remedy: str) -> None:
    """Raise a `UserError` unless every value is finite."""
    if not all_finite(values):
        raise UserError(f"{what} holds NaN or infinity; {remedy}")
