"""Weighted sums with twice the precision of float64, for the few elements where float64 is not enough.

Does *not* try to be fast: each sum takes about a hundred operations.
"""

from collections.abc import Sequence

import numpy as np
import torch


def exact_sum(sources: Sequence[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    """The sum with the precision of two float64 (Dekker's error-free product, Knuth's error-free sum)."""
    arrays = [source.cpu().double().numpy() for source in sources]
    factors = list(weights)
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is found in the result
        if len(arrays) == 2:  # low + weights[1] * (high - low), with the difference in two parts
            arrays[1:] = _two_sum(arrays[1], -arrays[0])
            factors = [1.0, weights[1], weights[1]]
        total = rest = np.zeros_like(arrays[0])
        for array, factor in zip(arrays, factors):
            product, error = (array, 0.0) if factor == 1.0 else _two_product(array, factor)
            total, sum_error = _two_sum(total, product)
            rest = rest + (sum_error + error)
    return torch.from_numpy(np.asarray(total + rest))


def _two_sum(a, b):  # type: ignore[no-untyped-def]  # floats or arrays
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _two_product(a: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray]:
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a):  # type: ignore[no-untyped-def]  # float or array
    spread = a * 134217729.0  # 2^27 + 1
    high = spread - (spread - a)
    return high, a - high
