"""Runs of several seeds on one set of problems: intervals cover both, all runs of a problem share a fold."""

import math

import numpy as np
import pytest

from cef_env.errors import UserError
from cef_env.eval.crossed import CrossedBootstrap, side_by_side
from cef_env.eval.intervals import Bootstrap, Error
from tests.eval.tables import counts_of, drawn


def test_one_seed_is_the_bootstrap_over_problems():
    values = np.random.default_rng(0).random(30)
    crossed, alone = CrossedBootstrap.of(30, 1, 7).mean(values), Bootstrap.over(30, 7).mean(values)
    assert crossed.low == pytest.approx(alone.low)
    assert crossed.high == pytest.approx(alone.high)


def test_three_seeds_that_disagree_make_the_interval_that_of_three_numbers():
    """All problems alike: the t interval over [.1, .3, .5], half width t(2) * .2 / sqrt(3) = 0.497."""
    values = np.repeat([0.1, 0.3, 0.5], 40)
    found = CrossedBootstrap.of(40, 3).mean(values - 0.4)
    assert found.value == pytest.approx(-0.1)
    assert found.high - found.value == pytest.approx(0.4968, abs=1e-3)


def test_seeds_that_agree_leave_the_interval_over_problems():
    one = np.random.default_rng(1).normal(size=50)
    alone, crossed = Bootstrap.over(50).mean(one), CrossedBootstrap.of(50, 3).mean(np.tile(one, 3))
    assert crossed.low == pytest.approx(alone.low, abs=0.01)
    assert crossed.high == pytest.approx(alone.high, abs=0.01)


def test_intervals_cover_problems_and_seeds():
    """40 problems, 3 seeds, effects of both kinds and noise: of 300 data sets 93% at least hold the truth."""
    rng = np.random.default_rng(2)
    inside = 0
    for seed in range(300):
        problems, seeds = rng.normal(0, 0.3, 40), rng.normal(0, 0.05, 3)
        values = problems + seeds[:, None] + rng.normal(0, 0.2, (3, 40))
        found = CrossedBootstrap.of(40, 3, seed, 300).mean(values.ravel())
        inside += found.low <= 0 <= found.high
    assert inside / 300 >= 0.93


def test_a_statistic_has_the_error_of_both():
    """The difference of two means is a mean of differences, so both ways must agree."""
    rng = np.random.default_rng(3)
    values = rng.random((2, 3 * 30))
    bootstrap = CrossedBootstrap.of(30, 3)
    as_statistic = bootstrap.statistic(values, lambda m: m[0] - m[1])
    as_mean = bootstrap.mean(values[0] - values[1])
    assert as_statistic.low == pytest.approx(as_mean.low)
    assert as_statistic.high == pytest.approx(as_mean.high)


def test_errors_add_as_variances_with_satterthwaites_freedom():
    total = Error(3.0, 4) + Error(4.0, 10)
    assert total.standard == pytest.approx(5.0)
    assert total.freedom == pytest.approx(25**2 / (81 / 4 + 256 / 10))
    assert (Error(0.0, 2) + Error(4.0, 10)).freedom == 10
    assert math.isnan((Error(math.nan, 2) + Error(4.0, 10)).standard)


def test_all_runs_of_a_problem_lie_in_one_fold():
    for parts in CrossedBootstrap.of(12, 3).folds():
        assert sorted(np.concatenate(parts)) == list(range(36))
        for part in parts:
            assert set(part % 12) == set(part[part < 12])


def test_tables_lie_side_by_side_seed_by_seed():
    rng = np.random.default_rng(4)
    tables = [drawn(rng.random((2, 5)), 4, (0, 1), rng) for _ in range(3)]
    both = side_by_side(tables)
    assert both.outcomes.shape == (2, 15, 4)
    assert (both.correct[:, 5:10] == tables[1].correct).all()
    assert len(set(both.problem_ids)) == 15


def test_runs_with_other_problems_are_refused():
    ones = np.ones((2, 3, 4), int)
    with pytest.raises(UserError, match="differ in members or problems"):
        side_by_side([counts_of(ones, (0, 1)), counts_of(ones[:, :2], (0, 1))])
