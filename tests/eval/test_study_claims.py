"""Claims over a study, on tables whose truth is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cef_env.eval.cells import CellData
from cef_env.eval.distances import signed_distance
from cef_env.eval.ensembles import Solver, budget_with_room
from cef_env.eval.study_claims import findings
from tests.eval.tables import counts_of

ALPHAS = (-3.0, -0.5, 0.0, 0.5, 1.0, 1.5, 3.0)
PROBLEMS, ANSWERS = 60, 40


def table(rates, members, rng):
    """`rates`: (optimization, correctness, format) failures of each member."""
    outcomes = np.zeros((len(rates), PROBLEMS, 4), int)
    for i, (opt, cor, fmt) in enumerate(rates):
        shares = np.array([1 - opt - cor - fmt, opt, cor, fmt])
        outcomes[i] = rng.multinomial(ANSWERS, shares, size=PROBLEMS)
    return counts_of(outcomes, members)


def line(alpha):
    """Between the ends one failure falls and the other rises by 0.25; far outside all breaks."""
    far = max(0.0, -0.5 - alpha, alpha - 1.5)
    a = min(1.5, max(-0.5, alpha))
    return 0.45 - 0.25 * a, 0.2 + 0.25 * a, min(0.3, far)


def cell(name="small", setting="reasoning", parameters=1, seeds=(0, 1, 2), off=0.0, shifts=(0, 0, 0)):
    """`off`: how much nearer to the origin shaping and fixing lie; `shifts` of alphas above 0."""
    rng = np.random.default_rng(5)
    alphas, beside = [], []
    side = off / math.sqrt(2)
    for _, shift in zip(seeds, shifts):
        rates = [line(a + shift if a > 0 else a) for a in ALPHAS]
        alphas.append(table(rates, ALPHAS, rng))
        opt, cor, _ = line(0.5)
        variants = {
            "coverage 4": (opt, cor, 0),
            "shaping discrete": (opt - side, cor - side, 0),
            "online fixing": (opt - side, cor - side, 0),
        }
        beside.append(table(list(variants.values()), list(variants), rng))
    return CellData(name, setting, parameters, seeds, tuple(alphas), tuple(beside))


def by_letter(cells):
    return {finding.letter: finding for finding in findings(cells)}


def test_a_frontier_holds_for_every_seed_and_all_together():
    found = by_letter([cell()])
    assert found["a"].held is True
    assert found["d"].held is True
    assert found["e"].held is True
    fall = found["a"].rows[0]
    assert fall.value.value == pytest.approx(-0.25, abs=0.02)
    assert len(fall.by_seed) == 3


def test_checkpoints_on_the_line_are_at_distance_nought():
    found = by_letter([cell()])
    for letter in ("c", "j"):
        assert found[letter].held is True
        assert found[letter].rows[0].value.value == pytest.approx(0, abs=0.01)
    assert found["k"].held is not True


def test_a_checkpoint_nearer_to_the_origin_moves_the_frontier():
    found = by_letter([cell(off=0.12)])
    distance = found["k"].rows[0]
    assert distance.held is True
    assert distance.value.value == pytest.approx(0.12, abs=0.015)
    assert found["j"].held is False


def test_without_a_frontier_nothing_lies_on_it():
    found = by_letter([cell(shifts=(-1, -1, -1))])
    assert found["a"].held is False
    assert found["c"].held is None
    assert "no curve" in found["c"].rows[0].reason


def test_settings_and_sizes_that_were_not_run_are_not_claimed():
    found = by_letter([cell()])
    assert found["f"].held is None
    assert "not all three settings" in found["f"].reason
    assert found["g"].held is None
    assert "one size" in found["g"].reason
    one = {"seeds": (0,), "shifts": (0,)}
    three = [cell(**one), cell("tool", "tool_use", **one), cell("agentic", "agentic", **one)]
    three.append(cell("large", parameters=5, **one))
    found = by_letter(three)
    assert found["f"].held is True
    assert found["g"].held is True
    assert {row.cell for row in found["f"].rows} == {"small", "tool", "agentic"}
    assert {row.cell for row in found["g"].rows} == {"small", "large"}


def test_one_seed_against_the_others_leaves_it_open():
    found = by_letter([cell(seeds=(0, 1, 2, 3, 4), shifts=(1, 1, 1, 1, -1.2))])
    assert found["a"].held is not True


@settings(deadline=None)
@given(
    share=st.floats(0.05, 0.95),
    off=st.floats(-0.05, 0.05),
    low=st.tuples(st.floats(0.6, 0.9), st.floats(0, 0.2)),
    high=st.tuples(st.floats(0, 0.3), st.floats(0.5, 0.9)),
)
def test_the_distance_to_a_straight_line_is_that_along_its_normal(share, off, low, high):
    low, high = np.array(low), np.array(high)
    along = high - low
    normal = np.array([-along[1], along[0]]) / np.hypot(*along)  # towards the origin
    at = low + share * along + off * normal
    middle = (low + high) / 2
    means = np.concatenate([[low[0], middle[0], high[0]], [low[1], middle[1], high[1]], at])[:, None]
    assert signed_distance(means, 3)[0] == pytest.approx(off, abs=1e-9)


def test_the_budget_leaves_room_for_a_gain():
    rng = np.random.default_rng(6)
    easy = table([(0.1, 0.1, 0)] * 2, (0, 1), rng)
    assert budget_with_room(easy) == 2
    mixed = [table([(0, 1 - p, 0)] * 2, (0, 1), rng) for p in (0.02, 0.15)]
    budgets = [budget_with_room(counts) for counts in mixed]
    assert budgets[0] == ANSWERS // 2
    assert 2 < budgets[1] < ANSWERS // 2
    solved = Solver(mixed[1], budgets[1] + 1)([1]).mean(), Solver(mixed[1], budgets[1])([1]).mean()
    assert max(solved[0], Solver(mixed[1], budgets[1] + 1)([0]).mean()) > 0.8 >= solved[1]
