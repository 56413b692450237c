"""Stochastic rounding: to one of the two neighbours, the nearer one more often, so that sums are unbiased.

Its random numbers depend on seed, output, tensor and position alone, so the files do not change with shards,
chunks, threads or a restart. Does *not* promise more than a choice between the two neighbours.
"""

import hashlib
import math

import numpy as np

from cef_env.merge.compiling import compiled
from cef_env.merge.kernel import BLOCK, round_to_nearest, signed_bits, widen


class Noise:
    """Random numbers for one tensor of one output from one block on."""

    def __init__(self, seed: int, output: str, tensor: str, first_block: int) -> None:
        text = f"{seed}\0{output}\0{tensor}".encode()
        self._key = int.from_bytes(hashlib.sha256(text).digest()[:16], "little")
        self._block = first_block

    def round(self, values: np.ndarray, out: np.ndarray, block: int = 0) -> None:
        """Fill `out` with float64 `values`: with the neighbour above as often as the distances say.

        They are the elements from the `block`th block on.
        """
        round_to_nearest(values, out)
        nearest, bits = widen(out), signed_bits(out)
        other = np.empty_like(bits)
        _neighbours(values, nearest, bits, other)
        _choose(values, nearest, widen(other.view(out.dtype)), self._drawn(block, values.size), bits, other)

    def _drawn(self, block: int, count: int) -> np.ndarray:
        """`count` random uint64; numpy promises that these stay the same from version to version."""
        drawn = []
        for i in range(math.ceil(count / BLOCK)):
            stream = np.random.Philox(key=self._key, counter=[0, 0, self._block + block + i, 0])
            drawn.append(stream.random_raw(min(BLOCK, count - i * BLOCK)))
        return np.concatenate(drawn)


_INTEGERS = ("int16", "int32", "int64")


@compiled([f"void(float64[::1], float64[::1], {bits}[::1], {bits}[::1])" for bits in _INTEGERS])
def _neighbours(values: np.ndarray, nearest: np.ndarray, bits: np.ndarray, other: np.ndarray) -> None:
    """Fill `other` with the bits of the neighbours of `nearest` on the other side of `values`."""
    integer = bits.dtype.type
    negative = integer(np.iinfo(bits.dtype).min)
    for k in range(values.size):
        i = np.uint64(k)
        if nearest[i] == 0.0:  # the smallest of either sign
            other[i] = integer(1) if values[i] >= 0.0 else integer(negative | integer(1))
        else:
            from_zero = (values[i] > nearest[i]) == (nearest[i] > 0.0)
            other[i] = integer(bits[i] + (integer(1) if from_zero else integer(-1)))


@compiled(
    [
        f"void(float64[::1], float64[::1], float64[::1], uint64[::1], {bits}[::1], {bits}[::1])"
        for bits in _INTEGERS
    ]
)
def _choose(
    values: np.ndarray,
    nearest: np.ndarray,
    further: np.ndarray,
    drawn: np.ndarray,
    bits: np.ndarray,
    other: np.ndarray,
) -> None:
    """Put `other` into `bits` with the probability |values - nearest| / |further - nearest|."""
    for k in range(values.size):
        i = np.uint64(k)
        uniform = np.float64(np.int64(drawn[i] >> np.uint64(11))) * 2.0**-53
        if uniform * abs(further[i] - nearest[i]) < abs(values[i] - nearest[i]):
            bits[i] = other[i]
