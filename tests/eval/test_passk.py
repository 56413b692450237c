"""pass@k and ensembles against exact fractions, by simulation, and by their properties."""

import math
import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.eval import ensemble_pass_at_k, pass_at_k


def exact_fail(n: int, c: int, k: int) -> Fraction:
    return Fraction(math.comb(n - c, k), math.comb(n, k))


def relative_error(got: float, exact: Fraction) -> float:
    return float(abs(Fraction(got) - exact) / exact) if exact else abs(got)


@st.composite
def cases(draw, most: int = 400):
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(cases())
@settings(max_examples=300, deadline=None)
def test_against_fractions(case):
    n, c, k = case
    assert relative_error(pass_at_k(n, c, k), 1 - exact_fail(n, c, k)) <= 1e-12


@pytest.mark.parametrize(
    ("n", "c", "k"),
    [
        (100_000, 1, 1), (100_000, 3, 250), (100_000, 20, 50_000), (100_000, 2000, 20), (100_000, 99_999, 1),
        (100_000, 1, 100_000), (100_000, 0, 7), (100_000, 7, 99_990), (1000, 10, 250), (250, 3, 250),
    ],
)  # fmt: skip
def test_large_n_to_twelve_digits(n, c, k):
    assert relative_error(pass_at_k(n, c, k), 1 - exact_fail(n, c, k)) <= 1e-12


def test_table_is_fast_and_monotone():
    n, c, k = 250, np.arange(251)[:, None], np.arange(1, 251)[None]
    started = time.process_time()
    table = pass_at_k(n, c, k)
    assert time.process_time() - started < 0.8  # four times the target: machines may be busy
    assert table.shape == (251, 250)
    assert (np.diff(table, axis=0) >= 0).all()
    assert (np.diff(table, axis=1) >= 0).all()
    assert (table[0] == 0).all()
    assert (table[250] == 1).all()


def test_scalars_give_a_float_and_k_of_one_is_the_rate():
    assert type(pass_at_k(10, 3, 1)) is float
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3, rel=1e-15)
    np.testing.assert_allclose(pass_at_k([4, 8], [1, 2], 1), [0.25, 0.25], rtol=1e-15)


@pytest.mark.parametrize(
    ("n", "c", "k", "match"),
    [
        (5, 2, 6, "k = 6 needs at least that many answers, only n = 5"),
        ([9, 5], [1, 1], 6, "only n = 5"),
        (0, 0, 1, "only n = 0"),
        (5, 6, 1, "c must lie between"),
        (5, -1, 1, "c must lie between"),
        (5, 1, 0, "a budget is at least 1"),
        (5, 1.5, 1, "c must hold integers"),
        (5, float("nan"), 1, "c must hold integers"),
        (float("inf"), 1, 1, "n must hold integers"),
    ],
)
def test_refusals(n, c, k, match):
    with pytest.raises(UserError, match=match):
        pass_at_k(n, c, k)


def test_ensemble_with_uneven_budget_is_the_mean_over_allocations():
    n, c = [250, 250, 250, 100], [3, 1, 5, 0]
    ways = [[62 + (m in more) for m in range(4)] for more in combinations(range(4), 2)]
    exact = sum(1 - math.prod(exact_fail(*a) for a in zip(n, c, way)) for way in ways) / len(ways)
    assert relative_error(ensemble_pass_at_k(n, c, 250), exact) <= 1e-12
    mean = np.mean([ensemble_pass_at_k(n, c, way) for way in ways])
    assert ensemble_pass_at_k(n, c, 250) == pytest.approx(mean, rel=1e-14)


@given(st.lists(cases(60), min_size=1, max_size=4), st.data())
@settings(max_examples=150, deadline=None)
def test_ensemble_against_fractions(members, data):
    n, c = [m[0] for m in members], [m[1] for m in members]
    budget = data.draw(st.integers(1, max(1, min(n) * len(n) - len(n) + 1)))
    share, rest = divmod(budget, len(n))
    if rest and share + 1 > min(n):
        return
    ways = [[share + (m in more) for m in range(len(n))] for more in combinations(range(len(n)), rest)]
    exact = sum(1 - math.prod(exact_fail(*a) for a in zip(n, c, way)) for way in ways) / len(ways)
    assert relative_error(ensemble_pass_at_k(n, c, budget), exact) <= 1e-12


def test_ensemble_of_one_is_pass_at_k_and_shapes_follow_the_problems():
    c = np.arange(21)
    np.testing.assert_array_equal(ensemble_pass_at_k([[20] * 21], [c], 7), pass_at_k(20, c, 7))
    assert ensemble_pass_at_k(np.full((3, 5), 10), np.ones((3, 5), int), 8).shape == (5,)
    assert type(ensemble_pass_at_k([5, 5], [1, 1], 4)) is float


def test_members_may_get_nothing():
    assert ensemble_pass_at_k([5, 9], [1, 2], [5, 0]) == 1.0
    assert ensemble_pass_at_k([9, 9, 9], [3, 3, 3], 1) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("n", "c", "k", "match"),
    [
        ([5, 5], [1, 1], 11, "only n = 5"),
        ([5, 5], [1, 1], [1, 2, 3], "one entry per member"),
        ([5, 5], [1, 1], 0, "at least 1 answer"),
        (5, 1, 2, "one entry of n and c per member"),
        ([], [], 2, "one entry of n and c per member"),
    ],
)
def test_ensemble_refusals(n, c, k, match):
    with pytest.raises(UserError, match=match):
        ensemble_pass_at_k(n, c, k)


def test_estimators_are_unbiased():
    """Over 20,000 draws of the answers, within 4 standard errors of the truth; the plug-in is not."""
    rng = np.random.default_rng(0)
    p, k, n = np.array([0.01, 0.003, 0.02, 0.0]), np.array([63, 63, 62, 62]), np.array([250, 250, 250, 100])
    c = rng.binomial(n[:, None], p[:, None], (4, 20_000))
    truth = 1 - np.prod((1 - p) ** k)
    ensemble = ensemble_pass_at_k(np.broadcast_to(n[:, None], c.shape), c, k)
    assert abs(ensemble.mean() - truth) < 4 * ensemble.std() / math.sqrt(20_000)
    single = pass_at_k(250, c[0], 63)
    assert abs(single.mean() - (1 - 0.99**63)) < 4 * single.std() / math.sqrt(20_000)
    plug_in = 1 - np.prod((1 - c / n[:, None]) ** k[:, None], axis=0)
    assert abs(plug_in.mean() - truth) > 20 * plug_in.std() / math.sqrt(20_000)
