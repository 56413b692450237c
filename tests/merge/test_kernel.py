"""The arithmetic against fractions: every element is the float64 nearest to the exact value, rounded."""

import math
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cef_env.errors import UserError
from cef_env.merge.arithmetic import exact_octaves
from cef_env.merge.kernel import STORED, Chunk, widen
from cef_env.merge.tensors import DTYPES as TORCH
from cef_env.merge.tensors import blend, require_finite

from .checkpoints import array, rounded

ALPHAS = st.floats(-3, 3, allow_nan=False)
VALUES = arrays(np.float32, 24, elements=st.floats(-200, 200, width=32, allow_subnormal=False))
DTYPES = st.sampled_from([torch.bfloat16, torch.float16, torch.float32])
NICE = st.sampled_from([-0.5, 0.3, 0.5, 0.9, 1.1, 1.2, 1.5, 1.6, 1.001, 0.003, 300.0, 1e6])
# Decimal alphas, where whole families of pairs cancel to the error of the decimal; dyadic ones; very near 0
# and 1, where the exponents of what cancels lie far apart; large ones.
HARD = st.one_of(
    st.sampled_from([0.1, 0.3, 0.7, 0.9, 1.1, 1.2, 1.6, -0.3, 1 / 3, 2.55, 1.01, -7.7]),
    st.integers(-128, 128).map(lambda k: k / 64),
    st.sampled_from(
        [
            2.0**-7,
            1 - 2.0**-7,
            0.0079,
            0.9921,
            1.0625,
            1.0001,
            1e-6,
            1 + 1e-9,
            1 - 2.0**-53,
            1 + 2.0**-19,
            300.1,
            1e6,
        ]
    ),
    st.floats(-4, 4).filter(lambda a: abs(a) > 1e-12),
).filter(lambda a: a not in (0.0, 1.0))


def exactly(sources: list[torch.Tensor], weights: list[Fraction]) -> np.ndarray:
    rows = [[Fraction(x) for x in source.double().tolist()] for source in sources]
    return np.array([float(sum(w * x for w, x in zip(weights, column))) for column in zip(*rows)])


def assert_exact(low: torch.Tensor, high: torch.Tensor, alpha: float, got: torch.Tensor) -> None:
    expected = rounded(exactly([low, high], [1 - Fraction(alpha), Fraction(alpha)]), got.dtype)
    expected[np.abs(expected) > torch.finfo(got.dtype).max] *= math.inf
    np.testing.assert_array_equal(got.double().numpy(), expected)


@given(VALUES, VALUES, st.one_of(ALPHAS, NICE), DTYPES, DTYPES)
@settings(max_examples=300, deadline=None)
def test_two_checkpoints_of_any_dtypes(low, high, alpha, stored, out):
    left, right = (torch.from_numpy(values.copy()).to(stored) for values in (low, high))
    assert_exact(left, right, alpha, blend(left, right, alpha, out))


@given(VALUES, VALUES, VALUES, ALPHAS, ALPHAS, DTYPES)
@settings(max_examples=100, deadline=None)
def test_three_checkpoints_are_as_exact_as_two(a, b, c, second, third, dtype):
    sources = [torch.from_numpy(values.copy()).to(dtype) for values in (a, b, c)]
    weights = [1 - second - third, second, third]
    name = next(name for name, known in TORCH.items() if known == dtype)
    got, finite = Chunk([array(source) for source in sources], name).merge(weights)
    if finite and sum(w != 0 for w in weights) != 2:  # of two the first has what is missing to 1
        expected = rounded(exactly(sources, [Fraction(w) for w in weights]), dtype)
        np.testing.assert_array_equal(widen(got), expected)


def around(values: torch.Tensor, steps: int) -> torch.Tensor:
    """Every value with its `steps` neighbours on both sides, along a last axis."""
    bits = values.view(torch.int16).int().unsqueeze(-1) + torch.arange(-steps, steps + 1)
    return bits.clamp(-32768, 32767).short().view(values.dtype)


def cancelling(low: torch.Tensor, alpha: float, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of `low` and all `high` within `steps` of the one where nothing is left."""
    high = around((low.double() * (alpha - 1) / alpha).to(low.dtype), steps)
    low = low.unsqueeze(-1).expand_as(high)
    kept = high.isfinite() & low.isfinite()
    return low[kept], high[kept]


@given(HARD, st.integers(-100, 100), DTYPES)
@example(1 - 2.0**-53, 0, torch.bfloat16)  # both 1 - alpha and the sum cancel
@example(1 + 2.0**-52, 0, torch.float32)
@settings(max_examples=60, deadline=None)
def test_terms_that_cancel_keep_their_precision(alpha, octave, out):
    low, high = cancelling((torch.arange(128.0, 256.0) * 2.0**octave).bfloat16(), alpha, 2)
    assert_exact(low, high, alpha, blend(low, high, alpha, out))


DYADIC = (
    st.integers(-192, 192).map(lambda k: k / 32).filter(lambda a: exact_octaves(a) >= 0 and a not in (0, 1))
)


@given(DYADIC, st.data())
@settings(max_examples=300, deadline=None)
def test_exponents_as_far_apart_as_float32_is_exact_for(alpha, data):
    octaves = exact_octaves(alpha)
    lowest = data.draw(st.sampled_from([0, 1, 60, 120, 254 - octaves]))
    exponents = st.lists(
        st.sampled_from([lowest, lowest + octaves // 2, lowest + octaves]), min_size=24, max_size=24
    )
    low, high = (
        torch.tensor([exponent << 7 for exponent in data.draw(exponents)], dtype=torch.int16)
        | torch.from_numpy(data.draw(arrays(np.int16, 24)) & ~np.int16(0x7F80))
        for _ in range(2)
    )  # fmt: skip
    low, high = low.view(torch.bfloat16), high.view(torch.bfloat16)
    assert_exact(low, high, alpha, blend(low, high, alpha, torch.bfloat16))


def test_float32_holds_what_it_is_said_to_hold():
    for numerator in range(-256, 257):
        alpha = Fraction(numerator, 128)
        octaves = exact_octaves(float(alpha))
        for left in (128, 255) if octaves >= 0 else ():
            for low, high in ((left << octaves, 255), (255, left << octaves), (left << octaves, -255)):
                exact = (1 - alpha) * low + alpha * high
                assert Fraction(float(np.float32(exact))) == exact


@pytest.mark.parametrize("alpha", [0.25, -0.5, 1.5, 0.75, 1 / 16, -31 / 16, 1 / 64])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_small_term_next_to_a_tie_counts_however_small(alpha, swapped):
    for apart in range(40):
        small = torch.tensor([1.0, 255 / 128, -1.0, -255 / 128]) * 2.0 ** (7 - apart)
        pair = torch.arange(128.0, 256.0).repeat(4).bfloat16(), small.repeat_interleave(128).bfloat16()
        low, high = reversed(pair) if swapped else pair
        assert_exact(low, high, alpha, blend(low, high, alpha, torch.bfloat16))


@given(VALUES, VALUES, st.lists(st.one_of(HARD, DYADIC, st.sampled_from([0.0, 1.0])), min_size=1, max_size=9))
@settings(max_examples=100, deadline=None)
def test_several_alphas_at_once_give_what_each_gives_by_itself(left, right, alphas):
    low, high = (array(torch.from_numpy(values.copy()).bfloat16()) for values in (left, right))
    chunk, outs = Chunk([low, high], "BF16"), [np.empty_like(low) for _ in alphas]
    weights = [(1 - alpha, alpha) for alpha in alphas]
    for alpha, (got, finite) in zip(alphas, chunk.merge_each(weights, outs, [None] * len(alphas))):
        alone, alone_finite = chunk.merge((1 - alpha, alpha))
        np.testing.assert_array_equal(got, alone)
        assert finite == alone_finite


def test_one_of_several_alphas_may_overflow():
    low, high = (array(torch.tensor([1.0, value]).bfloat16()) for value in (-(2.0**127), 2.0**127))
    alphas = [(1 - alpha, alpha) for alpha in (0.25, 1.5, 0.75, 1.6)]
    results = Chunk([low, high], "BF16").merge_each(alphas, [np.empty_like(low) for _ in alphas], [None] * 4)
    assert [finite for _, finite in results] == [True, False, True, False]
    assert widen(results[0][0]).tolist() == [1.0, -(2.0**126)]  # though 2^128 lies between


@pytest.mark.parametrize("alpha", [0.3, 1.1, 1.6, -0.7, 1 / 3, 0.9921])
def test_all_pairs_of_float16_that_cancel(alpha):
    low, high = cancelling(torch.arange(1024.0, 2048.0).half() / 1024, alpha, 1)
    assert_exact(low, high, alpha, blend(low, high, alpha, torch.float16))


@given(HARD, st.integers(-133, -110), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_pairs_that_cancel_among_subnormals(alpha, octave, steps):
    low, high = cancelling((torch.arange(-255.0, 256.0, 7).double() * 2.0**octave).bfloat16(), alpha, steps)
    assert_exact(low, high, alpha, blend(low, high, alpha, torch.bfloat16))


@given(st.sampled_from([torch.bfloat16, torch.float16]), HARD, arrays(np.int16, 40), arrays(np.int16, 40))
@settings(max_examples=200, deadline=None)
def test_any_bits_at_all(dtype, alpha, low, high):
    """Subnormals, zeros of both signs, the largest values, infinities and NaN, next to one another."""
    left, right = (torch.from_numpy(bits.copy()).view(dtype) for bits in (low, high))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        got, finite = Chunk([array(left), array(right)], "BF16" if dtype == torch.bfloat16 else "F16").merge(
            (1 - alpha, alpha)
        )
    values = torch.from_numpy(got).view(dtype)
    ordinary = left.isfinite() & right.isfinite()
    assert not values[~ordinary].isfinite().any()
    assert finite == bool(values.isfinite().all())
    assert_exact(left[ordinary], right[ordinary], alpha, values[ordinary])


@given(st.sampled_from([torch.float32, torch.float64]), st.sampled_from(["BF16", "F16", "F32"]), st.data())
@settings(max_examples=100, deadline=None)
def test_any_bits_of_wide_sources(dtype, out, data):
    integer = np.int32 if dtype == torch.float32 else np.int64
    low, high = (data.draw(arrays(integer, 20)).view(f"f{integer().itemsize}") for _ in range(2))
    with np.errstate(all="ignore"):  # a reference for what stays far inside float64
        expected = low.astype(np.float64) + 1.5 * (high.astype(np.float64) - low.astype(np.float64))
        far = ~(np.abs(expected) < 1e300)
    got, finite = Chunk([low, high], out).merge((-0.5, 1.5))
    values = widen(got)
    assert finite == bool(np.isfinite(values).all())
    assert not np.isfinite(values[far]).any()
    largest = torch.finfo(TORCH[out]).max
    assert (np.abs(values[~far]) <= np.where(np.abs(expected[~far]) < largest, largest, np.inf)).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("delta", [1e-5, 1e-3, 1e-1])
def test_nearly_all_elements_are_the_float64_result_rounded(dtype, delta):
    torch.manual_seed(0)
    low = (torch.randn(1 << 18) * 0.02).to(dtype)
    high = (low.float() + torch.randn(1 << 18) * delta).to(dtype)
    for alpha in (-0.5, -0.1, 0.3, 0.75, 0.9, 1.1, 1.2, 1.25, 1.6, 3.0):
        expected = rounded(torch.lerp(low.double(), high.double(), alpha).numpy(), dtype)
        assert (blend(low, high, alpha, dtype).double().numpy() == expected).mean() >= 0.9999, alpha


@pytest.mark.parametrize("name", ["BF16", "F16", "F32", "F64"])
def test_sources_that_need_no_rounding_are_copied_between_dtypes(name):
    values = torch.arange(-256, 256).double() / 8
    got, finite = Chunk([array(values.to(TORCH["F32"])), array(values.bfloat16())], name).merge((0.0, 1.0))
    assert finite
    assert got.dtype == STORED[name]
    np.testing.assert_array_equal(widen(got), values.numpy())


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
@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf, -math.inf])
def test_finite_check_agrees_with_torch(dtype, bad):
    values = torch.randn(1000, dtype=torch.float64).to(dtype)
    values[3] = torch.finfo(dtype).max
    values[4] = -torch.finfo(dtype).max
    values[5] = -0.0
    require_finite(values, "layer.weight", "do something")
    require_finite(torch.empty(0, dtype=dtype), "layer.weight", "do something")
    values[999] = bad
    with pytest.raises(UserError, match=r"layer.weight holds NaN or infinity; do something"):
        require_finite(values, "layer.weight", "do something")


def test_no_folder_for_compiled_code_is_one_line():
    code = """
from numba.core import caching
caching.CacheImpl._locator_classes = []
from cef_env.errors import UserError
try:
    import cef_env.merge.arithmetic
except UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "set NUMBA_CACHE_DIR to one" in done.stdout, done.stderr
