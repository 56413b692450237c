"""Each claim on data where it holds and on data where it does not."""

from dataclasses import replace
from functools import cache

import pytest

from cef_env.eval import OUTCOMES, Interval, Sample, tabulate
from cef_env.eval.claims import judge_claims
from cef_env.eval.verdicts import PAPER, all_of, exceeds
from cef_env.judge.types import FormatErrorCause, Outcome
from tests.eval import synthetic
from tests.eval.synthetic import NULL, PAPER_LIKE, SPECIALISTS


@cache
def answers(world, split="hard", seed=0, **options):
    claims = judge_claims(tabulate(synthetic.draw(world, split=split, seed=seed, **options)).values(), seed)
    assert [c.id for c in claims] == list(PAPER)
    assert all(c.reason for c in claims if c.held is None)
    return {c.id: c for c in claims}


def test_every_claim_holds_where_the_truth_is_the_papers():
    found = answers(SPECIALISTS, problems=200)
    assert {id_: c.held for id_, c in found.items()} == dict.fromkeys(PAPER, True)


def test_no_claim_holds_where_nothing_happens():
    found = answers(NULL, problems=150, answers=40)
    held = {id_: c.held for id_, c in found.items()}
    assert held == {
        "coverage": False,
        "interpolation": None,  # no segment between equal endpoints
        "extrapolation": False,
        "breakdown": False,
        "breakdown_cause": None,
        "turnover": False,
        "ensemble": None,  # every problem is solved anyway
        "extended_pool": None,
        "flat": True,  # this one is true of a policy that never changes
    }
    assert "no room for a gain" in found["ensemble"].reason
    assert "no segment" in found["interpolation"].reason


def test_a_policy_that_moves_the_other_way_is_not_the_papers():
    backwards = synthetic.World(PAPER_LIKE.base, (0.0, 1.2, -1.2, 0.0), 0.0, 0.6, 0.0)
    found = answers(backwards)
    assert found["coverage"].held is False
    assert found["extrapolation"].held is False


def test_a_solve_rate_that_rises_is_not_flat():
    rising = synthetic.World(PAPER_LIKE.base, (1.5, -1.2, 0.0, 0.0), 0.0, 0.6, 0.0)
    assert answers(rising, problems=100)["flat"].held is False
    easy = answers(rising, problems=100, split="easy")["flat"]
    assert easy.held is False
    assert "hard problems only" in easy.reason


def exact(rates):
    """Claims where each of 20 problems has exactly these (correct, opt., cor., format) rates per alpha."""
    rows = []
    for alpha, shares in rates.items():
        counts = [round(20 * share) for share in shares]
        assert sum(counts) == 20
        kinds = [kind for kind, count in zip(OUTCOMES, counts) for _ in range(count)]
        for problem in range(20):
            for index, kind in enumerate(kinds):
                cause = "out_of_tokens" if kind is Outcome.FORMAT_ERROR else None
                rows.append(Sample(f"{problem:02}", "hard", alpha, index, kind, format_error=cause))
    return {c.id: c for c in judge_claims(tabulate(rows).values())}


LOW, HIGH = (0.3, 0.6, 0.1, 0.0), (0.3, 0.2, 0.5, 0.0)


@pytest.mark.parametrize(
    ("middle", "held"),
    [
        ((0.3, 0.4, 0.3, 0.0), True),  # on the segment
        ((0.5, 0.3, 0.2, 0.0), True),  # nearer to the origin: better than the segment
        ((0.0, 0.5, 0.5, 0.0), False),  # in order, but far behind the segment
        ((0.2, 0.75, 0.05, 0.0), False),  # out of order
    ],
)
def test_interpolation(middle, held):
    found = exact({0.0: LOW, 0.5: middle, 1.0: HIGH})
    assert found["coverage"].held is True
    assert found["interpolation"].held is held


@pytest.mark.parametrize(
    ("below", "above", "held"),
    [
        ((0.2, 0.75, 0.05, 0.0), (0.25, 0.1, 0.65, 0.0), True),
        ((0.35, 0.6, 0.05, 0.0), (0.25, 0.1, 0.65, 0.0), False),  # no more optimization failures than low
        ((0.2, 0.75, 0.05, 0.0), (0.4, 0.1, 0.5, 0.0), False),  # no more correctness failures than high
        ((0.2, 0.75, 0.05, 0.0), (0.15, 0.2, 0.65, 0.0), False),  # no fewer optimization failures than high
    ],
)
def test_extrapolation_needs_all_three_parts(below, above, held):
    found = exact({-0.5: below, 0.0: LOW, 1.0: HIGH, 1.5: above})
    assert found["extrapolation"].held is held


@pytest.mark.parametrize(
    ("far", "held"),
    [
        ((0.05, 0.1, 0.5, 0.35), True),
        ((0.05, 0.1, 0.75, 0.1), False),  # format errors rise, but explain less than half of the loss
        ((0.3, 0.1, 0.25, 0.35), False),  # format errors rise, but nothing is lost
    ],
)
def test_breakdown_must_be_explained_by_format_errors(far, held):
    found = exact({0.0: LOW, 1.0: HIGH, 2.5: far})
    assert found["breakdown"].held is held
    near = exact({0.0: LOW, 1.0: HIGH, 1.75: far})  # a sweep that ends before 2 refutes nothing
    assert near["breakdown"].held is (True if held else None)


def test_interpolation_that_leaves_the_segment_or_turns_back():
    """Between the endpoints the optimization failures of the paper-like world are replaced."""
    samples = synthetic.draw(PAPER_LIKE, problems=100)
    turned = [
        replace(s, outcome=Outcome.OPTIMIZATION_FAILURE)
        if s.alpha == 0.5 and s.outcome is Outcome.CORRECT
        else s
        for s in samples
    ]
    claims = {c.id: c for c in judge_claims(tabulate(turned).values())}
    assert claims["coverage"].held is True
    assert claims["interpolation"].held is False


def test_breakdown_by_something_else_than_format_errors():
    """Far outside the solve rate falls because answers become wrong."""
    samples = [
        replace(s, outcome=Outcome.CORRECTNESS_FAILURE, format_error=None)
        if s.outcome is Outcome.FORMAT_ERROR and not -0.5 <= s.alpha <= 1.5
        else s
        for s in synthetic.draw(PAPER_LIKE, problems=60)
    ]
    claims = {c.id: c for c in judge_claims(tabulate(samples).values())}
    assert claims["breakdown"].held is False
    assert claims["breakdown_cause"].held is None


def test_cause_of_the_breakdown():
    samples = [
        s if s.format_error is None else replace(s, format_error=FormatErrorCause.NO_CODE.value)
        for s in synthetic.draw(PAPER_LIKE, problems=60)
    ]
    claims = {c.id: c for c in judge_claims(tabulate(samples).values())}
    assert claims["breakdown"].held is True
    assert claims["breakdown_cause"].held is False


@pytest.mark.parametrize(
    ("alphas", "missing"),
    [
        ((-0.5, 0.5), set(PAPER)),
        ((0.0, 1.0), {"interpolation", "extrapolation", "breakdown", "breakdown_cause", "extended_pool"}),
        ((0.0, 0.5, 1.0), {"extrapolation", "breakdown", "breakdown_cause", "extended_pool"}),
        ((-1.0, 0.0, 1.0, 1.5), {"interpolation", "breakdown_cause"}),
    ],
)
def test_what_was_not_sampled_cannot_be_told(alphas, missing):
    found = answers(PAPER_LIKE, alphas=alphas)
    for id_ in missing:
        assert found[id_].held is None, id_
        assert "too wide" not in found[id_].reason


def test_few_problems_decide_nothing():
    found = answers(PAPER_LIKE, problems=12)
    assert all(c.held is None for c in found.values())
    assert "only 12 problems" in found["coverage"].reason


def test_one_answer_each_is_survivable():
    found = answers(PAPER_LIKE, answers=1)
    assert found["turnover"].held is None
    assert found["ensemble"].held is None


def test_false_alarms_are_rare_where_nothing_happens():
    """On 30 null data sets no claim of movement holds more than 3 times; 2.5% of them would be 1."""
    alarms = dict.fromkeys(PAPER, 0)
    for seed in range(30):
        for id_, claim in answers(
            NULL, problems=40, answers=8, alphas=(-0.5, 0.0, 0.5, 1.0, 1.5), seed=seed
        ).items():
            alarms[id_] += claim.held is True
    assert all(alarms[id_] <= 3 for id_ in PAPER if id_ != "flat"), alarms


@pytest.mark.parametrize(
    ("interval", "room", "expected"),
    [
        (Interval(0.1, 0.01, 0.2), 1, True),
        (Interval(0.1, -0.01, 0.2), 1, None),
        (Interval(0.0, -0.01, 0.02), 1, False),
        (Interval(0.0, -0.01, 0.02), 0.01, None),
        (Interval(-0.1, -0.2, -0.05), 0.01, False),
        (Interval(0.0, 0.0, 0.0), 1, False),
        (Interval(0.5), 1, None),
    ],
)
def test_three_way_rule(interval, room, expected):
    assert exceeds(interval, 0.03, room) is expected


def test_parts():
    assert all_of([True, True]) is True
    assert all_of([True, None]) is None
    assert all_of([None, False, True]) is False
