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

from cef_env.merge.bits import (
    all_finite,
    cancelled,
    largest_magnitude,
    magnitude_bits,
    require_finite,
    stored_bits,
)
from cef_env.merge.exact import exact_sum
from cef_env.merge.narrow import merge_narrow
from cef_env.merge.scratch import Scratch

DTYPES = {
    "BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64,
    "I64": torch.int64, "I32": torch.int32, "BOOL": torch.bool,
}  # fmt: skip
"""safetensors name -> torch dtype."""

BLOCK = 1 << 15
"""Elements that share one stream of random numbers, and one unit of the statistics."""


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
        if self._narrow and len(used) == 2:
            merged = (
                torch.empty_like(chosen[0], memory_format=torch.contiguous_format) if out is None else out
            )
            low, high = (source.reshape(-1) for source in chosen)
            return merged, merge_narrow(low, high, factors[1], merged.view(-1), self._scratch)
        # Octaves between the largest source and a result for which float64 is enough: the error is below
        # 2^-51 * scale * largest and must be below half a unit in the last place, which is at least
        # 2^-(stored+2) of the result. Magnitude bits differ as binary logarithms do, within 0.18; two more
        # octaves cover that.
        scale = max(1.0, math.fsum(abs(factor) for factor in factors))
        octaves = 47 - stored_bits(self.dtype) - math.ceil(math.log2(scale))
        if octaves <= 0:
            merged = exact_sum(chosen, factors).to(self.dtype).to(chosen[0].device)
            return merged, all_finite(merged)
        merged = _wide(chosen, factors).to(self.dtype)
        bits = magnitude_bits(merged, self._scratch)
        limit = octaves << stored_bits(self.dtype)
        top = max(largest_magnitude(source.to(self.dtype)) for source in chosen)
        at = cancelled(bits.view(-1), self._largest(used).view(-1), top, limit)
        if at is not None:
            values = exact_sum([source.reshape(-1)[at] for source in chosen], factors)
            merged.view(-1)[at] = values.to(self.dtype).to(merged.device)
        return merged, all_finite(merged)

    def _largest(self, used: list[int]) -> torch.Tensor:
        """Magnitude bits, as `dtype` sees them, of the largest of the sources in use, element by element."""
        for index in used:
            if index not in self._bits:
                source = self.sources[index].to(self.dtype)
                self._bits[index] = magnitude_bits(source, self._scratch, f"bits {index}")
        first = self._bits[used[0]]
        largest = self._scratch.get("largest", first, first.dtype).copy_(first)
        for index in used[1:]:
            torch.maximum(largest, self._bits[index], out=largest)
        return largest


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
