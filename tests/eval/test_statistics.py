"""Counts, intervals, frontier, turnover and ensembles on data whose truth is known."""

import math

import numpy as np
import pytest

from cef_env.errors import UserError
from cef_env.eval import OUTCOMES, Bootstrap, Interval, Sample, frontier, pass_at_k, tabulate
from cef_env.eval.ensembles import compare_ensembles
from cef_env.eval.turnover import jaccard_matrix, turnover
from cef_env.judge.types import Outcome
from tests.eval import synthetic


def sample(
    problem: str, alpha: float, index: int, outcome: Outcome = Outcome.CORRECT, **other: object
) -> Sample:
    return Sample(problem, "s", alpha, index, outcome, **other)  # type: ignore[arg-type]


def test_counts():
    samples = synthetic.draw(synthetic.PAPER_LIKE, problems=7, answers=5, alphas=(0.0, 1.0))
    (counts,) = tabulate(samples).values()
    assert counts.alphas == (0.0, 1.0)
    assert (counts.n == 5).all()
    for a, alpha in enumerate(counts.alphas):
        for p, problem in enumerate(counts.problem_ids):
            mine = [s for s in samples if s.alpha == alpha and s.problem_id == problem]
            assert [sum(s.outcome is o for s in mine) for o in OUTCOMES] == counts.outcomes[a, p].tolist()
            assert sum(s.format_error is not None for s in mine) == counts.causes[a, p].sum()
            assert sum(s.tokens for s in mine) == counts.tokens[a, p]
    assert counts.with_tag("even").problem_ids == ("p000", "p002", "p004", "p006")
    with pytest.raises(UserError, match="no problem tagged"):
        counts.with_tag("nothing")
    with pytest.raises(UserError, match=r"no alpha 0.5; it has 0, 1"):
        counts.at(0.5)


def test_unfinished_alphas_are_named_not_averaged():
    rows = [sample(p, a, 0) for p in "xy" for a in (0.0, 1.0)]
    (counts,) = tabulate([*rows, sample("x", 2.0, 0)]).values()
    assert counts.alphas == (0.0, 1.0)
    assert counts.incomplete == (2.0,)
    with pytest.raises(
        UserError, match=r"no member has answers to all 2 problems \(alpha 0 has none to 'y'\)"
    ):
        tabulate([sample("x", 0.0, 0), sample("y", 1.0, 0)])
    with pytest.raises(UserError, match="occurs twice"):
        tabulate([*rows, rows[0]])


def test_bootstrap_covers_the_truth():
    """95% intervals of a mean over 60 problems: at least 90% and at most 99% of 300 data sets."""
    rng = np.random.default_rng(1)
    inside = 0
    for seed in range(300):
        p = rng.beta(0.5, 0.8, 60)
        interval = Bootstrap.over(60, seed, resamples=400).mean(rng.binomial(12, p) / 12)
        inside += interval.low <= 0.5 / 1.3 <= interval.high
    assert 0.90 <= inside / 300 <= 0.99


def test_paired_differences_are_much_narrower():
    rng = np.random.default_rng(2)
    p = rng.beta(0.4, 0.4, 80)
    a, b = rng.binomial(50, p) / 50, rng.binomial(50, p) / 50
    bootstrap = Bootstrap.over(80)
    paired = bootstrap.mean(a - b)
    unpaired = math.hypot(*(i.high - i.low for i in bootstrap.means(np.stack([a, b]))))
    assert (paired.high - paired.low) < 0.4 * unpaired


def test_bootstrap_is_seeded_and_says_when_it_cannot():
    values = np.linspace(0, 1, 30)
    assert Bootstrap.over(30, 5).mean(values) == Bootstrap.over(30, 5).mean(values)
    assert Bootstrap.over(30, 5).mean(values) != Bootstrap.over(30, 6).mean(values)
    one = Bootstrap.over(1).mean(np.array([0.3]))
    assert one.value == 0.3
    assert not one.known
    assert not one.above_zero
    assert not one.below_zero


def test_frontier_matches_the_truth():
    alphas = (-0.5, 0.0, 0.5, 1.0, 1.5)
    samples = synthetic.draw(synthetic.PAPER_LIKE, problems=120, answers=40, alphas=alphas)
    (counts,) = tabulate(samples).values()
    truth = synthetic.probabilities(synthetic.PAPER_LIKE, 120, alphas, 0).mean(axis=1)
    found = frontier(counts)
    for a, point in enumerate(found.points):
        for o, outcome in enumerate(OUTCOMES):
            assert point.rates[outcome].value == pytest.approx(truth[a, o], abs=0.03)
            assert point.rates[outcome].low <= point.rates[outcome].value <= point.rates[outcome].high
    slopes = {(s.outcome, s.over): s.estimate for s in found.slopes}
    assert slopes[Outcome.OPTIMIZATION_FAILURE, (0.0, 1.0)].below_zero
    assert slopes[Outcome.CORRECTNESS_FAILURE, (-0.5, 1.5)].above_zero
    assert [r.alpha for r in found.reach] == [-0.5, 1.5]
    assert found.reach[0].optimization.above_zero
    assert found.reach[1].optimization.below_zero
    assert found.reach[1].correctness.above_zero
    assert [p.trained for p in found.points] == [False, True, False, True, False]
    assert [p.extrapolated for p in found.points] == [True, False, False, False, True]


def test_slope_interval_is_the_t_interval_of_the_problem_slopes():
    from scipy import stats

    samples = synthetic.draw(synthetic.PAPER_LIKE, problems=25, answers=6, alphas=(0.0, 0.5, 1.0))
    (counts,) = tabulate(samples).values()
    slopes = [stats.linregress([0, 0.5, 1], counts.rate(Outcome.CORRECT)[:, p]).slope for p in range(25)]
    low, high = stats.t.interval(0.95, 24, np.mean(slopes), stats.sem(slopes))
    found = next(s.estimate for s in frontier(counts).slopes if s.outcome is Outcome.CORRECT)
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(slopes), low, high), rel=1e-9)


def test_turnover_by_simulation():
    """The closed form equals the mean over random choices of the answers."""
    samples = synthetic.draw(synthetic.PAPER_LIKE, problems=40, answers=8, alphas=(0.0, 1.0))
    (counts,) = tabulate(samples).values()
    found = turnover(counts, 0.0, 1.0, Bootstrap.over(40))
    rng = np.random.default_rng(0)
    answers = np.zeros((2, 40, 8), bool)
    for a in range(2):
        for p in range(40):
            answers[a, p, : counts.correct[a, p]] = True
    both = union = null_both = null_union = 0.0
    for _ in range(2000):
        mixed = rng.permuted(answers, axis=2)
        first, second = mixed[:, :, :4].any(axis=2), mixed[:, :, 4:].any(axis=2)
        both += (first[0] & first[1]).sum()
        union += (first[0] | first[1]).sum()
        null_both += (first & second).sum()
        null_union += (first | second).sum()
    assert found.jaccard.value == pytest.approx(both / union, abs=0.005)
    assert found.null.value == pytest.approx(null_both / null_union, abs=0.005)
    matrix = jaccard_matrix(counts)
    assert matrix[0, 1] == matrix[1, 0] == pytest.approx(found.jaccard.value)


def test_turnover_of_one_policy_drawn_twice_is_its_null():
    """Over 60 data sets the excess is 0 on average, and its interval excludes 0 rarely."""
    excess, alarms = [], 0
    for seed in range(60):
        samples = synthetic.draw(synthetic.NULL, problems=40, answers=6, alphas=(0.0, 1.0), seed=seed)
        (counts,) = tabulate(samples).values()
        found = turnover(counts, 0.0, 1.0, Bootstrap.over(40, seed, 300)).excess
        excess.append(found.value)
        alarms += found.above_zero
    assert abs(np.mean(excess)) < 3.5 * np.std(excess) / math.sqrt(60) + 0.003
    assert alarms <= 6


def test_turnover_is_not_a_change_of_level():
    """A second alpha that solves a subset is not credited with problems of its own."""
    rows = []
    for p in range(40):
        for i in range(8):
            strong = Outcome.CORRECT if p < 30 else Outcome.CORRECTNESS_FAILURE
            weak = Outcome.CORRECT if p < 15 else Outcome.CORRECTNESS_FAILURE
            rows += [sample(f"{p:02}", 0.0, i, strong), sample(f"{p:02}", 1.0, i, weak)]
    (counts,) = tabulate(rows).values()
    found = turnover(counts, 0.0, 1.0, Bootstrap.over(40))
    assert found.jaccard.value == 0.5
    assert found.null.value == 1.0
    assert found.only_first.above_zero
    assert found.only_second.value == 0


def specialists(gain: bool) -> list[Sample]:
    """Five alphas, 60 problems. With `gain` the outer two alphas solve a third each that nothing else solves
    and the inner three share the last third; without it all solve the same third."""
    rng = np.random.default_rng(3)
    rows = []
    for alpha, third in zip((-0.5, 0.0, 0.5, 1.0, 1.5), (0, 1, 1, 1, 2)):
        for p in range(60):
            able = p % 3 == (third if gain else 0)
            for i, hit in enumerate(rng.random(16) < (0.5 if able else 0.01)):
                outcome = Outcome.CORRECT if hit else Outcome.CORRECTNESS_FAILURE
                rows.append(sample(f"{p:02}", alpha, i, outcome))
    return rows


def test_ensembles_win_when_alphas_are_specialists():
    (counts,) = tabulate(specialists(gain=True)).values()
    found = compare_ensembles(counts, Bootstrap.over(60, resamples=500))
    assert found.budget == 8
    assert found.gain_over_single.above_zero
    assert found.gain_over_interpolated is not None
    assert found.gain_over_interpolated.above_zero
    assert {-0.5, 1.5} < set(found.extended.usual)


def test_ensembles_do_not_win_when_alphas_are_alike():
    (counts,) = tabulate(specialists(gain=False)).values()
    found = compare_ensembles(counts, Bootstrap.over(60, resamples=500))
    assert not found.gain_over_single.above_zero
    assert found.gain_over_interpolated is not None
    assert not found.gain_over_interpolated.above_zero


def test_choice_is_not_flattered():
    """Thirteen exchangeable alphas: the naive best single reads too high, the cross-fitted one hardly."""
    rng = np.random.default_rng(0)
    errors, naive = [], []
    for seed in range(12):
        alphas = np.linspace(-1, 2, 13).round(2)
        p = np.clip(rng.beta(0.3, 2, 60)[:, None] * np.exp(rng.normal(0, 1, (60, 13))), 0, 1)
        hits = rng.random((13, 60, 8)) < p.T[:, :, None]
        rows = [
            sample(f"{q:02}", float(a), i, Outcome.CORRECT if hits[j, q, i] else Outcome.OPTIMIZATION_FAILURE)
            for j, a in enumerate(alphas)
            for q in range(60)
            for i in range(8)
        ]
        (counts,) = tabulate(rows).values()
        found = compare_ensembles(counts, Bootstrap.over(60, seed, 200))
        truth = (1 - (1 - p) ** 4).mean()
        errors.append(found.single.pass_at_budget.value - truth)
        naive.append(np.max(np.mean(pass_at_k(counts.n, counts.correct, 4), axis=1)) - truth)
    assert np.mean(naive) > 0.02
    assert np.mean(errors) < 0.6 * np.mean(naive)


def test_ensembles_need_problems():
    rows = [sample(p, a, i) for p in "xyz" for a in (0.0, 1.0) for i in range(4)]
    (counts,) = tabulate(rows).values()
    with pytest.raises(UserError, match="cross-fitting needs 5 problems"):
        compare_ensembles(counts, Bootstrap.over(3))


def test_interval_prints_itself():
    assert str(Interval(0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"
