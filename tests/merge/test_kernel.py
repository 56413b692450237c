"""The arithmetic against a float64 reference."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cef_env.errors import UserError
from cef_env.merge.kernel import Difference, Stats, all_finite, blend, require_finite

ALPHAS = st.floats(-3, 3, allow_nan=False)
VALUES = arrays(np.float32, 24, elements=st.floats(-200, 200, width=32, allow_subnormal=False))
DTYPES = st.sampled_from([torch.bfloat16, torch.float16, torch.float32])


def ulp(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance from |x| to the next larger value of `dtype`, as float64."""
    stored = x.abs().to(dtype)
    return (torch.nextafter(stored, torch.tensor(math.inf, dtype=dtype)).double() - stored.double()).abs()


@given(VALUES, VALUES, ALPHAS, DTYPES, DTYPES)
@settings(max_examples=300, deadline=None)
def test_within_one_ulp_of_float64(low, high, alpha, stored, out):
    low_t, high_t = torch.from_numpy(low.copy()).to(stored), torch.from_numpy(high.copy()).to(stored)
    exact = alpha * high_t.double() + (1 - alpha) * low_t.double()
    got = blend(low_t, high_t, alpha, out).double()
    size = (alpha * high_t.double()).abs() + ((1 - alpha) * low_t.double()).abs()
    # One unit in the last place, or where the two terms cancel, a small part of their size.
    narrow = stored == out and stored.itemsize == 2
    slack = size * (2.0**-20 if narrow else 2.0**-49)
    assert ((got - exact).abs() <= torch.maximum(ulp(exact, out), slack)).all()


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


def test_stats_recover_alpha_and_do_not_depend_on_chunks():
    low, high = torch.randn(1000), torch.randn(1000)
    high[:100] = low[:100]
    merged = blend(low, high, 1.6, torch.float32)
    whole, parts = Stats(), Stats()
    whole.add(Difference(low, high), merged)
    for at in range(0, 1000, 300):
        chunk = Stats()
        part = slice(at, at + 300)
        chunk.add(Difference(low[part], high[part]), merged[part])
        parts.merge(chunk)
    assert whole.summary()["effective_alpha"] == pytest.approx(1.6, abs=1e-6)
    assert whole.summary()["frac_unchanged"] == 0.1
    assert parts.summary()["effective_alpha"] == pytest.approx(whole.summary()["effective_alpha"], rel=1e-12)
    assert parts.equal_high == whole.equal_high >= 100


def test_stats_show_that_bfloat16_rounds_alpha():
    """One unit in the last place apart, alpha 1.2 is the high model itself."""
    low = torch.ones(64, dtype=torch.bfloat16)
    high = torch.nextafter(low, torch.tensor(2.0, dtype=torch.bfloat16))
    stats = Stats()
    stats.add(Difference(low, high), blend(low, high, 1.2, torch.bfloat16))
    assert stats.summary()["effective_alpha"] == 1.0
    assert stats.summary()["frac_equal_high"] == 1.0


def test_stats_without_a_difference_have_no_effective_alpha():
    stats = Stats()
    stats.add(Difference(torch.ones(3), torch.ones(3)), torch.ones(3))
    assert stats.summary()["effective_alpha"] is None
