"""Statistics by Monte Carlo: intervals cover, nothing is found where nothing is, choices are not flattered.

Tolerances are those of the number of data sets drawn: with 200 of them a coverage of .95 is measured to
+-.03 (two standard errors).
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.eval import Bootstrap, pass_at_k
from cef_env.eval.allocation import _leave_out, allocation, best_shares, fail_table
from cef_env.eval.comparisons import compare_controls
from cef_env.eval.ensembles import _sets, compare_ensembles
from cef_env.eval.nested import nested_pass_at_k
from cef_env.eval.pools import only_outer
from cef_env.eval.shape import dominated, flatness, shape, stable_range
from cef_env.eval.turnover import turnover
from tests.eval.tables import counts_of, drawn

ALPHAS = (-0.5, 0.0, 0.5, 1.0, 1.5)


def test_intervals_of_pass_at_k_cover_with_few_problems():
    """24 problems x 20 answers, pass@10: 200 data sets, at least 91% and at most 99%."""
    rng = np.random.default_rng(0)
    truth = (1 - (1 - rng.beta(0.5, 2, 200_000)) ** 10).mean()
    inside = 0
    for seed in range(200):
        c = rng.binomial(20, rng.beta(0.5, 2, 24))
        found = Bootstrap.over(24, seed, 400).mean(pass_at_k(20, c, 10))
        inside += found.low <= truth <= found.high
    assert 0.91 <= inside / 200 <= 0.99


def test_differences_of_one_policy_exclude_zero_no_more_than_they_should():
    """A/A at 24 problems x 4 answers, 400 independent pairs: at most 7%."""
    rng = np.random.default_rng(1)
    out = 0
    for seed in range(400):
        p = rng.beta(0.4, 0.8, 24)
        found = Bootstrap.over(24, seed, 300).mean((rng.binomial(4, p) - rng.binomial(4, p)) / 4)
        out += found.above_zero or found.below_zero
    assert out / 400 <= 0.07


def test_nothing_is_found_where_all_members_are_one_policy():
    """60 A/A data sets, 30 problems x 8 answers: five gains, each above 0 in at most 4 (2.5% are 1.5)."""
    rng = np.random.default_rng(2)
    alarms = dict.fromkeys(("turnover", "only outer", "single", "interpolated", "allocation"), 0)
    for seed in range(60):
        counts = drawn(np.broadcast_to(rng.beta(0.4, 0.8, 30), (5, 30)), 8, ALPHAS, rng)
        bootstrap = Bootstrap.over(30, seed, 200)
        ensembles = compare_ensembles(counts, bootstrap, seed=seed)
        pool = only_outer(counts, bootstrap)
        assert pool is not None
        assert ensembles.gain_over_interpolated is not None
        gains = (
            turnover(counts, -0.5, 1.5, bootstrap).excess, pool.excess, ensembles.gain_over_single,
            ensembles.gain_over_interpolated,
        )  # fmt: skip
        if seed < 20:
            gains = (*gains, allocation(counts, Bootstrap.over(30, seed, 60), 4, seed).gain_over_even)
        for name, gain in zip(alarms, gains):
            alarms[name] += gain.above_zero
    assert max(alarms.values()) <= 4, alarms


def test_every_subset_of_nine_is_tried_and_the_winner_is_not_flattered():
    """Nine exchangeable alphas: the naive best set reads too high, the cross-fitted one by less than half."""
    assert len(_sets(range(9), 1, 9)) == 511
    rng = np.random.default_rng(3)
    alphas = np.linspace(-0.5, 1.5, 9)
    naive, fitted = [], []
    for seed in range(15):
        p = np.clip(rng.beta(0.3, 2, 60) * np.exp(rng.normal(0, 1, (9, 60))), 0, 1)
        counts = drawn(p, 8, alphas, rng)
        found = compare_ensembles(counts, Bootstrap.over(60, seed, 200), seed=seed)
        average = np.mean([_even(p[list(chosen)], 4) for chosen in _sets(range(9), 4, 4)[::7]])
        naive.append(found.extended.naive - average)
        fitted.append(found.extended.pass_at_budget.value - average)
        assert found.extended.sizes == (2, 4)
        assert found.extended_equal is not None
        assert found.extended_equal.sizes == (2, 4)
    assert np.mean(naive) > 0.02
    assert abs(np.mean(fitted)) < 0.5 * np.mean(naive)


def _even(p, budget):
    return (1 - np.prod((1 - p) ** (budget / len(p)), axis=0)).mean()


def test_splitting_a_budget_over_unlike_members_gains_without_any_choice():
    rng = np.random.default_rng(4)
    p = np.zeros((5, 40))
    p[np.arange(40) % 5, np.arange(40)] = 0.6
    found = compare_ensembles(drawn(p, 10, ALPHAS, rng), Bootstrap.over(40, 0, 300))
    assert found.splitting.above_zero
    assert found.everyone.value > 0.4


def test_allocation_is_near_the_best_of_all_allocations():
    """3 members, budget 7: all 36 allocations, over 20 tables; within 1e-3 of the best."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        counts = drawn(rng.beta(0.3, 1.5, (3, 30)), 12, (0.0, 0.5, 1.0), rng)
        table, weights = fail_table(counts, 7), np.full(30, 1 / 30)
        shares = best_shares(table, 7, weights)
        assert shares.sum() == 7
        ways = [way for way in product(range(8), repeat=3) if sum(way) == 7]
        best = min(table[[0, 1, 2], list(way)].prod(axis=0).mean() for way in ways)
        assert table[[0, 1, 2], shares].prod(axis=0).mean() <= best + 1e-3


def test_a_member_that_solves_nothing_gets_nothing():
    rng = np.random.default_rng(6)
    p = np.stack([np.full(40, 0.3), np.zeros(40), np.full(40, 0.1)])
    found = allocation(drawn(p, 20, (0.0, 0.5, 1.0), rng), Bootstrap.over(40, 0, 100), 9)
    assert dict(found.shares).keys() <= {0.0, 1.0}
    assert sum(k for _, k in found.shares) == 9
    assert found.gain_over_even.above_zero


def test_products_over_the_others_survive_zeros():
    values = np.array([[0.5, 0.0, 0.0], [0.2, 0.3, 0.0], [0.1, 0.4, 0.5]])
    direct = [[np.prod(np.delete(values[:, j], i)) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(_leave_out(values), direct)


def test_problems_of_the_extrapolated_pool_alone():
    """Specialists outside are found; members alike are not, and the two shares agree on average."""
    rng = np.random.default_rng(7)
    p = np.zeros((5, 40))
    p[1:4, :20] = 0.4
    p[[0, 4], 20:30] = 0.5
    found = only_outer(drawn(p, 10, ALPHAS, rng), Bootstrap.over(40, 0, 300))
    assert found is not None
    assert found.budget == 15
    assert (found.outer, found.inner) == ((-0.5, 1.5), (0.0, 0.5, 1.0))
    assert found.excess.above_zero
    assert {id_ for id_, _ in found.problems} <= {f"p{i:04}" for i in range(20, 30)}
    assert all(chance == pytest.approx(1, abs=0.01) for _, chance in found.problems)
    excess = []
    for seed in range(150):
        counts = drawn(np.broadcast_to(rng.beta(0.4, 0.8, 40), (5, 40)), 6, ALPHAS, rng)
        found = only_outer(counts, Bootstrap.over(40, seed, 50))
        assert found is not None
        excess.append(found.excess.value)
    assert abs(np.mean(excess)) < 4 * np.std(excess) / np.sqrt(150)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_hypervolume_is_the_area_that_some_point_dominates(points):
    x, y = np.array(points).T
    grid = (np.arange(200) + 0.5) / 200
    covered = ((x[:, None, None] <= grid[:, None]) & (y[:, None, None] <= grid)).any(axis=0).mean()
    assert dominated(x[:, None], y[:, None])[0] == pytest.approx(covered, abs=0.03)


def line(alphas, problems=30, formats=None):
    """100 answers each: optimization failures fall and correctness failures rise by 20 per unit of alpha."""
    rows = []
    for i, a in enumerate(alphas):
        bad = 0 if formats is None else formats[i]
        opt, cor = round(50 - 40 * (a - 0.5)) // 2, round(30 + 20 * (a - 0.5))
        rows.append([[100 - opt - cor - bad, opt, cor, bad]] * problems)
    return counts_of(rows, alphas)


def test_a_straight_frontier_goes_half_a_length_beyond_each_end():
    found = shape(line(ALPHAS), Bootstrap.over(30))
    assert [(b.alpha, round(b.share.value, 6)) for b in found.beyond] == [(-0.5, 0.5), (1.5, 0.5)]
    assert found.hypervolume is not None
    assert found.hypervolume.gain.value > 0
    assert found.hypervolume.trained.value < found.hypervolume.interpolated.value
    assert shape(line((0.5, 0.75)), Bootstrap.over(30)).hypervolume is None


def test_a_checkpoint_that_writes_nothing_readable_dominates_nothing():
    rows = [50, 25, 25, 0], [50, 20, 30, 0], [0, 0, 0, 100]
    counts = counts_of([[row] * 20 for row in rows], (0.0, 1.0, 1.5))
    found = shape(counts, Bootstrap.over(20)).hypervolume
    assert found is not None
    assert found.gain.value == 0


def test_ends_that_coincide_have_a_reason_and_no_number():
    counts = counts_of([[[50, 25, 25, 0]] * 20] * 3, (0.0, 1.0, 1.5))
    (beyond,) = shape(counts, Bootstrap.over(20)).beyond
    assert np.isnan(beyond.share.value)
    assert beyond.share.reason


def test_the_stable_range_ends_where_format_errors_begin():
    alphas = (-1.0, -0.5, 0.0, 1.0, 1.5, 2.0)
    found = stable_range(line(alphas, formats=(2, 30, 0, 2, 5, 8)), Bootstrap.over(30), limit=0.1)
    assert found.likely == (0.0, 2.0)  # alpha -1 lies behind one that is not stable
    assert stable_range(line(alphas, formats=(0, 0, 0, 30, 0, 0)), Bootstrap.over(30)).likely is None


def test_flatness_is_shown_and_not_merely_unrefuted():
    rng = np.random.default_rng(8)
    same = drawn(np.full((3, 80), 0.4), 40, (0.0, 0.5, 1.0), rng)
    found = flatness(same, Bootstrap.over(80))
    assert found is not None
    assert found.equivalent
    few = drawn(np.broadcast_to(rng.beta(0.5, 0.5, 6), (3, 6)), 2, (0.0, 0.5, 1.0), rng)
    found = flatness(few, Bootstrap.over(6))
    assert found is not None
    assert not found.equivalent
    assert flatness(line((0.0, 1.0)), Bootstrap.over(30)).equivalent  # type: ignore[union-attr]


def test_flatness_is_rarely_shown_at_the_margin():
    """Solve rates that differ by exactly the margin: shown in 5% of 400 data sets, at most 8%."""
    rng = np.random.default_rng(9)
    shown = 0
    for _ in range(400):
        low = rng.beta(2, 3, 40) * 0.9
        counts = drawn(np.stack([low, low + 0.1]), 10, (0.0, 1.0), rng)
        shown += flatness(counts, Bootstrap.over(40, 0, 10)).equivalent  # type: ignore[union-attr]
    assert shown / 400 <= 0.08


def test_nested_intervals_are_wider_and_refused_without_answers():
    rng = np.random.default_rng(10)
    counts = drawn(rng.beta(0.5, 2, (1, 50)), 20, (0.0,), rng)
    (nested,) = nested_pass_at_k(counts, 10)
    plain = Bootstrap.over(50).mean(pass_at_k(counts.n[0], counts.correct[0], 10))
    assert nested.value == pytest.approx(plain.value)
    assert 1.0 < (nested.high - nested.low) / (plain.high - plain.low) < 1.5
    with pytest.raises(UserError, match="pass@11 needs 22 answers"):
        nested_pass_at_k(counts, 11)


def test_controls_are_compared_at_one_budget_with_the_alphas_that_they_imitate():
    rng = np.random.default_rng(11)
    p = np.zeros((6, 40))
    p[[1, 2], :10] = 0.5
    p[0, 10:20], p[3, 20:30] = 0.5, 0.5  # alpha -0.5 and 1.5 solve problems of their own, the controls none
    counts = drawn(p, 20, (-0.5, 0.0, 1.0, 1.5, "random 1.5", "temperature 1.2"), rng)
    random, hot = compare_controls(counts, Bootstrap.over(40))
    assert (random.kind, random.alphas, random.controls) == ("random", (1.5,), ("random 1.5",))
    assert (hot.kind, hot.alphas) == ("temperature", (-0.5, 1.5))
    assert random.budget == hot.budget == 10
    assert random.gain.above_zero
