"""Sums over chunks against plain numpy, and distances of floats against those of their integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cef_env.merge.measuring import count_octaves, measure_output, measure_sources

SIZES = st.sampled_from([0, 1, 7, 1023, 1024, 1025, 2500])


@given(st.integers(2, 4), SIZES, st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_sums_are_those_of_numpy(m, size, seed):
    random = np.random.default_rng(seed)
    # Few values, so that many are equal.
    sources, stored = random.integers(-2, 3, (2, m, size)).astype(np.float64)
    merged, previous = random.integers(-2, 3, (2, size)).astype(np.float64)
    deltas, step = sources[1:] - sources[0], merged - sources[0]
    gram, moved, equal = np.full((m - 1, m - 1), np.nan), np.full(m - 1, np.nan), np.full(m, np.nan)
    squared, unchanged = measure_sources(sources, gram)
    same = measure_output(merged, previous, sources, stored, moved, equal)
    # Integers: exact whatever the order of the sums.
    assert squared == sources[0] @ sources[0]
    assert unchanged == (deltas == 0).all(axis=0).sum()
    np.testing.assert_array_equal(gram, deltas @ deltas.T)
    np.testing.assert_array_equal(moved, deltas @ step)
    np.testing.assert_array_equal(equal, (merged == stored).sum(axis=1))
    assert same == (merged == previous).sum()


def place(bits: int, width: int) -> int:
    """The number of a float in their order, 0 for both zeros."""
    half = 1 << (width - 1)
    return half - bits if bits >= half else bits


@pytest.mark.parametrize("width", [16, 32, 64])
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_distances_count_floats_between(width, data):
    size = data.draw(SIZES)
    a = data.draw(arrays(f"u{width // 8}", size))
    near = data.draw(arrays(np.int16, size, elements=st.integers(-3000, 3000)))
    b = (a + near.astype(a.dtype)).astype(a.dtype) if data.draw(st.booleans()) else a[::-1].copy()
    counts, expected = np.zeros(12), np.zeros(12)
    for left, right in zip(a.tolist(), b.tolist()):
        expected[min(abs(place(left, width) - place(right, width)).bit_length(), 11)] += 1
    count_octaves(a, b, counts)
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_neighbours_are_one_apart_also_across_zero(kind):
    values = np.array([1.0, 0.0, -1.0, 0.0, 2.0], kind)
    above = np.nextafter(values, np.array(np.inf, kind))
    above[3] = -0.0
    counts = np.zeros(12)
    bits = f"u{values.itemsize}"
    count_octaves(values.view(bits), above.view(bits), counts)
    assert counts.tolist() == [1, 4] + [0] * 10
