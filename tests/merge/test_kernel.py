"""The arithmetic against a float64 reference."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cef_env.errors import UserError
from cef_env.merge.bits import all_finite, require_finite
from cef_env.merge.kernel import BLOCK, Chunk, Noise, blend

ALPHAS = st.floats(-3, 3, allow_nan=False)
VALUES = arrays(np.float32, 24, elements=st.floats(-200, 200, width=32, allow_subnormal=False))
DTYPES = st.sampled_from([torch.bfloat16, torch.float16, torch.float32])


def ulp(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance from |x| to the next larger value of `dtype`, as float64."""
    stored = x.abs().to(dtype)
    return (torch.nextafter(stored, torch.tensor(math.inf, dtype=dtype)).double() - stored.double()).abs()


NICE = st.sampled_from([-0.5, 0.3, 0.5, 0.9, 1.1, 1.2, 1.5, 1.6, 1.001, 0.003, 300.0, 1e6])


def exactly(sources: list[torch.Tensor], weights: list[Fraction]) -> list[Fraction]:
    rows = [[Fraction(x) for x in source.double().tolist()] for source in sources]
    return [sum((w * x for w, x in zip(weights, column)), Fraction(0)) for column in zip(*rows)]


def assert_within_one_ulp(got: torch.Tensor, exact: list[Fraction]) -> None:
    step = ulp(got, got.dtype).tolist()
    for value, true, unit in zip(got.double().tolist(), exact, step):
        assert abs(Fraction(value) - true) <= Fraction(unit), (value, float(true))


@given(VALUES, VALUES, st.one_of(ALPHAS, NICE), DTYPES, DTYPES)
@settings(max_examples=300, deadline=None)
def test_every_element_is_within_one_ulp_of_the_exact_value(low, high, alpha, stored, out):
    low_t, high_t = torch.from_numpy(low.copy()).to(stored), torch.from_numpy(high.copy()).to(stored)
    got, finite = Chunk((low_t, high_t), out).merge((1 - alpha, alpha))
    if finite:
        weights = [1 - Fraction(alpha), Fraction(alpha)]
        assert_within_one_ulp(got, exactly([low_t, high_t], weights))


@given(st.integers(1, 127), st.integers(-8, 8), NICE, DTYPES)
@settings(max_examples=200, deadline=None)
def test_terms_that_cancel_keep_their_precision(significand, octave, alpha, dtype):
    """Where alpha * high is all but -(1 - alpha) * low, float32 would leave noise."""
    low = torch.tensor([significand * 2.0**octave], dtype=dtype)
    high = (low.double() * (alpha - 1) / alpha).to(dtype)
    assume(bool(high.isfinite().all()))
    got, finite = Chunk((low, high), dtype).merge((1 - alpha, alpha))
    assert finite
    assert_within_one_ulp(got, exactly([low, high], [1 - Fraction(alpha), Fraction(alpha)]))


@given(VALUES, VALUES, VALUES, ALPHAS, ALPHAS, DTYPES)
@settings(max_examples=100, deadline=None)
def test_three_checkpoints_are_as_exact_as_two(a, b, c, second, third, dtype):
    sources = [torch.from_numpy(values.copy()).to(dtype) for values in (a, b, c)]
    weights = [1 - second - third, second, third]
    got, finite = Chunk(sources, dtype).merge(weights)
    if finite and sum(w != 0 for w in weights) != 2:  # of two the first has what is missing to 1
        assert_within_one_ulp(got, exactly(sources, [Fraction(w) for w in weights]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("delta", [1e-5, 1e-3, 1e-1])
def test_nearly_all_elements_are_the_float64_result_rounded(dtype, delta):
    torch.manual_seed(0)
    low = (torch.randn(1 << 18) * 0.02).to(dtype)
    high = (low.float() + torch.randn(1 << 18) * delta).to(dtype)
    for alpha in (-0.5, -0.1, 0.3, 0.75, 0.9, 1.1, 1.2, 1.25, 1.6, 3.0):
        expected = torch.lerp(low.double(), high.double(), alpha).to(dtype)
        got = blend(low, high, alpha, dtype)
        assert (got == expected).double().mean() >= 0.9999, alpha


@given(VALUES, VALUES, DTYPES)
@settings(max_examples=100, deadline=None)
def test_alpha_zero_and_one_are_exact(low, high, dtype):
    low_t, high_t = torch.from_numpy(low.copy()).to(dtype), torch.from_numpy(high.copy()).to(dtype)
    assert torch.equal(blend(low_t, high_t, 0.0, dtype), low_t)
    assert torch.equal(blend(low_t, high_t, 1.0, dtype), high_t)


@given(VALUES, ALPHAS, DTYPES)
@settings(max_examples=100, deadline=None)
def test_equal_inputs_do_not_move(values, alpha, dtype):
    t = torch.from_numpy(values.copy()).to(dtype)
    assert torch.equal(blend(t, t.clone(), alpha, dtype), t)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_finite_check_agrees_with_torch(dtype, bad):
    values = torch.randn(1000, dtype=torch.float64).to(dtype)
    values[3] = torch.finfo(dtype).max
    values[4] = -torch.finfo(dtype).max
    values[5] = -0.0
    assert all_finite(values)
    values[999] = bad
    assert not all_finite(values)
    assert all_finite(torch.empty(0, dtype=dtype))
    with pytest.raises(UserError, match=r"layer.weight holds NaN or infinity; do something"):
        require_finite(values, "layer.weight", "do something")


def test_stochastic_rounding_is_one_of_the_two_neighbours_and_without_bias():
    values = torch.full(
        (1 << 18,), 1 + 2**-9, dtype=torch.float64
    )  # a quarter of the way to the next bfloat16
    got = Noise(0, "alpha_0.5", "w", 0).round(values, torch.bfloat16)
    above = torch.nextafter(torch.ones(1, dtype=torch.bfloat16), torch.tensor(2.0, dtype=torch.bfloat16))
    assert set(got.unique().tolist()) == {1.0, float(above)}
    assert float((got != 1).double().mean()) == pytest.approx(0.25, abs=0.004)  # four standard errors


def test_stochastic_rounding_depends_on_position_seed_and_name_only():
    values = torch.linspace(-1, 1, 4 * BLOCK, dtype=torch.float64)
    whole = Noise(3, "a", "w", 0).round(values, torch.bfloat16)
    parts = [Noise(3, "a", "w", i).round(values[i * BLOCK : (i + 2) * BLOCK], torch.bfloat16) for i in (0, 2)]
    assert torch.equal(whole, torch.cat(parts))
    for other in (Noise(4, "a", "w", 0), Noise(3, "b", "w", 0), Noise(3, "a", "v", 0), Noise(3, "a", "w", 1)):
        assert not torch.equal(whole, other.round(values, torch.bfloat16))


def test_stochastic_rounding_leaves_what_needs_no_rounding():
    low, high = torch.randn(100).bfloat16(), torch.randn(100).bfloat16()
    for alpha, source in ((0.0, low), (1.0, high)):
        got, _ = Chunk((low, high), torch.bfloat16).merge((1 - alpha, alpha), noise=Noise(0, "a", "w", 0))
        assert torch.equal(got, source)
