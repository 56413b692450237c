"""Two sources of one 16-bit dtype in float32: no element that cancels slips through, whatever the block."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cef_env.merge import narrow
from cef_env.merge.bits import cancelled, largest_magnitude, magnitude_bits, signed_bits
from cef_env.merge.narrow import merge_narrow, octaves_allowed
from cef_env.merge.scratch import Scratch

NARROW = st.sampled_from([torch.bfloat16, torch.float16])
# Decimal alphas, where whole families of pairs cancel to the error of the decimal; dyadic ones; very near 0
# and 1, where the exponents of what cancels lie far apart; large ones.
ALPHAS = st.one_of(
    st.sampled_from([0.1, 0.3, 0.7, 0.9, 1.1, 1.2, 1.6, -0.3, 1 / 3, 2.55, 1.01, -7.7]),
    st.integers(-128, 128).map(lambda k: k / 64),
    st.sampled_from([2.0**-7, 1 - 2.0**-7, 0.0079, 0.9921, 1.0625, 1.0001, 1e-6, 1 + 1e-9, 300.1, 1e6]),
    st.floats(-4, 4).filter(lambda a: abs(a) > 1e-12),
).filter(lambda a: a not in (0.0, 1.0))


def merge(low: torch.Tensor, high: torch.Tensor, alpha: float) -> tuple[torch.Tensor, bool]:
    out = torch.empty_like(low)
    return out, merge_narrow(low, high, alpha, out, Scratch())


def around(values: torch.Tensor, steps: int) -> torch.Tensor:
    """Every value with its `steps` neighbours on both sides, along a last axis."""
    bits = signed_bits(values).int().unsqueeze(-1) + torch.arange(-steps, steps + 1)
    return bits.clamp(-32768, 32767).short().view(values.dtype)


def assert_within_one_ulp(low: torch.Tensor, high: torch.Tensor, alpha: float, got: torch.Tensor) -> None:
    size = got.abs()
    above, below = (torch.nextafter(size, torch.full_like(size, to)).double() for to in (math.inf, 0.0))
    unit = torch.where(above.isfinite(), above - size.double(), size.double() - below)
    rows = zip(low.double().tolist(), high.double().tolist(), got.double().tolist(), unit.tolist())
    for a, b, value, step in rows:
        true = Fraction(a) + Fraction(alpha) * (Fraction(b) - Fraction(a))
        assert abs(Fraction(value) - true) <= Fraction(step), (alpha, a, b, value, float(true))


def cancelling(low: torch.Tensor, alpha: float, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of `low` and all `high` within `steps` of the one where nothing is left."""
    high = around((low.double() * (alpha - 1) / alpha).to(low.dtype), steps)
    low = low.unsqueeze(-1).expand_as(high)
    kept = high.isfinite() & low.isfinite()
    return low[kept], high[kept]


@given(ALPHAS, st.integers(-100, 100), st.integers(0, 2**16), st.integers(1, 3000))
@settings(max_examples=40, deadline=None)
def test_pairs_that_cancel_are_exact_wherever_they_lie(alpha, octave, seed, filling):
    """Low of one octave and the highs where the result vanishes, scattered among ordinary ones."""
    generator = torch.Generator().manual_seed(seed)
    low = (torch.arange(128.0, 256.0) * 2.0**octave).bfloat16()
    low, high = cancelling(low, alpha, 2)
    others = torch.randn(2, filling, generator=generator).bfloat16() * 2.0**octave
    order = torch.randperm(len(low) + filling, generator=generator)
    low_block, high_block = torch.cat([low, others[0]])[order], torch.cat([high, others[1]])[order]
    got, finite = merge(low_block, high_block, alpha)
    if finite:
        placed = torch.empty_like(order)
        placed[order] = torch.arange(len(order))
        assert_within_one_ulp(low, high, alpha, got[placed[: len(low)]])


@pytest.mark.parametrize("alpha", [0.3, 1.1, 1.6, -0.7, 1 / 3, 0.9921])
def test_all_pairs_of_float16_that_cancel_are_exact(alpha):
    low, high = cancelling(torch.arange(1024.0, 2048.0).half() / 1024, alpha, 1)
    assert_within_one_ulp(low, high, alpha, merge(low, high, alpha)[0])


@given(NARROW, ALPHAS, arrays(np.int16, 40), arrays(np.int16, 40), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_bits_at_all(dtype, alpha, low, high, padded):
    """Subnormals, zeros of both signs, the largest values, infinities and NaN, next to one another."""
    left, right = (torch.from_numpy(bits.copy()).view(dtype) for bits in (low, high))
    if padded:  # zeros around them, which never need repair
        left, right = (torch.cat([torch.zeros(1500, dtype=dtype), v, -torch.zeros(50, dtype=dtype)])
                       for v in (left, right))  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got, finite = merge(left, right, alpha)
    if not (left.isfinite().all() and right.isfinite().all()):
        assert not finite
    assert finite == bool(got.isfinite().all())
    ordinary = left.isfinite() & right.isfinite() & got.isfinite()
    if padded:
        ordinary[:1500] = False
    assert_within_one_ulp(left[ordinary], right[ordinary], alpha, got[ordinary])


@given(ALPHAS, st.integers(-133, -110), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_pairs_that_cancel_among_subnormals(alpha, octave, steps):
    low, high = cancelling((torch.arange(-255.0, 256.0, 7).double() * 2.0**octave).bfloat16(), alpha, steps)
    got, finite = merge(low, high, alpha)
    assert finite
    assert_within_one_ulp(low, high, alpha, got)


@pytest.mark.parametrize("alpha", [0.5, 0.3, 0.25])
def test_a_difference_that_only_float32_cannot_hold(alpha):
    low, high = torch.full((5000,), -3e38).bfloat16(), torch.full((5000,), 3e38).bfloat16()
    low[7], high[7] = 1.0, -2.0
    got, finite = merge(low, high, alpha)
    assert finite
    for i in (7, 8):
        assert_within_one_ulp(low[i : i + 1], high[i : i + 1], alpha, got[i : i + 1])


@pytest.mark.parametrize("alpha", [0.3, 1.6, 1.1, 0.9])
def test_the_bound_is_one_that_is_needed(alpha, monkeypatch):
    """Without repair these pairs are wrong: the tests above can fail."""
    assert octaves_allowed(alpha, torch.bfloat16) == 21
    monkeypatch.setattr(narrow, "cancelled", lambda *_: None)
    low, high = cancelling(torch.arange(128.0, 256.0).bfloat16(), alpha, 1)
    with pytest.raises(AssertionError):
        assert_within_one_ulp(low, high, alpha, merge(low, high, alpha)[0])


@given(st.integers(0, 5000), st.integers(0, 300), st.integers(0, 2**16), st.integers(0, 0x7F00))
@settings(max_examples=200, deadline=None)
def test_what_has_cancelled_is_found_as_one_by_one(size, few, seed, limit):
    """Few and many hits, in whole rows and the last one; the reference with its signs or without."""
    draw = np.random.default_rng(seed)
    reference = draw.integers(-0x7FFF, 0x7FFF, size, dtype=np.int16)
    bits = np.full(size, 0x7F00, dtype=np.int16)
    hits = draw.integers(0, size, min(few, size)) if size else []
    bits[hits] = draw.integers(0, 0x7F00, len(hits), dtype=np.int16)
    signed = torch.from_numpy(reference).view(torch.bfloat16)
    magnitudes = magnitude_bits(signed)
    expected = np.flatnonzero(magnitudes.numpy().astype(int) - bits.astype(int) > limit)
    for given_reference in (signed_bits(signed), magnitudes):
        found = cancelled(torch.from_numpy(bits), given_reference, largest_magnitude(signed), limit)
        assert ([] if found is None else sorted(found.tolist())) == expected.tolist()


@given(st.sampled_from([torch.bfloat16, torch.float16, torch.float32, torch.float64]), st.data())
def test_the_largest_magnitude_is_that_of_either_sign(dtype, data):
    integer = {2: np.int16, 4: np.int32, 8: np.int64}[dtype.itemsize]
    bits = torch.from_numpy(data.draw(arrays(integer, st.integers(0, 9))))
    values = bits.view(dtype)
    assert largest_magnitude(values) == max(magnitude_bits(values).tolist(), default=0)
