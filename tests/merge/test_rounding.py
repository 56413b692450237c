"""Rounding to 16 bits, every number of them, and to a neighbour by chance."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cef_env.merge.kernel import BLOCK, STORED, Chunk, round_to_nearest, widen
from cef_env.merge.stochastic import Noise
from cef_env.merge.tensors import DTYPES as TORCH

from .checkpoints import LAYOUT, array, rounded


@pytest.mark.parametrize("sign", [0, 0x8000])
@pytest.mark.parametrize(
    ("name", "infinity", "limit"), [("BF16", 0x7F80, 2.0**128), ("F16", 0x7C00, 65536.0)]
)
def test_every_number_of_16_bits_and_every_middle_of_two_gets_its_bits(name, infinity, limit, sign):
    below = np.arange(infinity, dtype=np.uint16) | np.uint16(sign)
    above = below + np.uint16(1)
    low, high = widen(below.view(STORED[name])), widen(above.view(STORED[name]))
    high[-1] = -limit if sign else limit
    middle = low + (high - low) / 2  # exact
    even = np.where(below % 2 == 0, below, above)
    for values, expected in (
        (low, below),
        (np.nextafter(low, high), below),
        (np.nextafter(middle, low), below),
        (middle, even),
        (np.nextafter(middle, high), above),
        (np.nextafter(high, low), above),
    ):
        got = np.empty_like(below)
        round_to_nearest(values, got.view(STORED[name]))
        np.testing.assert_array_equal(got, expected)


def test_every_float16_is_widened_as_numpy_does():
    bits = np.arange(1 << 16, dtype=np.uint16)
    np.testing.assert_array_equal(widen(bits.view(np.float16)), bits.view(np.float16).astype(np.float64))


@pytest.mark.parametrize("name", ["BF16", "F16"])
def test_what_is_too_large_is_infinite_and_no_number_is_not_finite(name):
    values = np.array([1e39, 1e300, 1.7e308, math.inf])
    out = np.empty(4, STORED[name])
    for sign in (1, -1):
        round_to_nearest(sign * values, out)
        np.testing.assert_array_equal(widen(out), np.full(4, sign * math.inf))
    round_to_nearest(np.array([math.nan, -math.nan, math.nan, -math.nan]), out)
    assert not np.isfinite(widen(out)).any()


@given(st.integers(0, 0x7F7F), st.sampled_from([-1, 1]), st.integers(1, 52), st.booleans())
@settings(max_examples=500, deadline=None)
def test_next_to_a_tie_is_not_a_tie(bits, side, closeness, negative):
    """Just above and just below the middle of two bfloat16, as near as float64 can be: float32 sees ties."""
    low = torch.tensor([bits], dtype=torch.int16).view(torch.bfloat16).double().item()
    high = torch.tensor([bits + 1], dtype=torch.int16).view(torch.bfloat16).double().item()
    middle = low + (high - low) / 2 if math.isfinite(high) else torch.finfo(torch.float32).max
    value = np.array([middle * (1 + side * 2.0**-closeness)]) * (-1 if negative else 1)
    got, _ = Chunk([value], "BF16").merge((1.0,))
    expected = rounded(value, torch.bfloat16)
    expected[np.abs(expected) > torch.finfo(torch.bfloat16).max] *= math.inf
    np.testing.assert_array_equal(widen(got), expected)


def drawn(noise: Noise, values: np.ndarray, name: str = "BF16") -> np.ndarray:
    out = np.empty(len(values), STORED[name])
    noise.round(values, out)
    return widen(out)


@pytest.mark.parametrize("name", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("quarters", [1, 3])
@pytest.mark.parametrize("octave", [0, -140])
def test_stochastic_rounding_is_one_of_the_two_neighbours_and_without_bias(name, sign, quarters, octave):
    """Also from the largest below a power of two, and between zero and the smallest number of all."""
    bits, smallest = LAYOUT[TORCH[name]]
    step = 2.0 ** (1 - bits) if octave == 0 else 2.0**smallest
    below = sign * (1.0 if octave == 0 else 0.0)
    got = drawn(Noise(0, "alpha_0.5", "w", 0), np.full(1 << 18, below + sign * step * quarters / 4), name)
    assert set(got.tolist()) == {below, below + sign * step}
    assert (got != below).mean() == pytest.approx(quarters / 4, abs=0.004)  # four standard errors


def test_stochastic_rounding_depends_on_position_seed_and_name_only():
    values = np.linspace(-1, 1, 4 * BLOCK)
    whole = drawn(Noise(3, "a", "w", 0), values)
    parts = [drawn(Noise(3, "a", "w", i), values[i * BLOCK : (i + 2) * BLOCK]) for i in (0, 2)]
    assert (whole == np.concatenate(parts)).all()
    for other in (Noise(4, "a", "w", 0), Noise(3, "b", "w", 0), Noise(3, "a", "v", 0), Noise(3, "a", "w", 1)):
        assert (whole != drawn(other, values)).any()


def test_stochastic_rounding_leaves_what_needs_no_rounding():
    low, high = (array(torch.randn(100).bfloat16()) for _ in range(2))
    for alpha, source in ((0.0, low), (1.0, high)):
        got, _ = Chunk([low, high], "BF16").merge((1 - alpha, alpha), noise=Noise(0, "a", "w", 0))
        assert (got == source).all()
    values = widen(low)
    assert (drawn(Noise(0, "a", "w", 0), values) == values).all()
