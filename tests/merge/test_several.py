"""More than two checkpoints: free sums, and the path along coverage."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.merge import load_state_dict, plan, plan_path, plan_sum, run
from cef_env.merge.planning import path_weights


@pytest.fixture
def three(checkpoint):
    return [checkpoint(name, seed) for seed, name in enumerate(("a", "b", "c"))]


def test_a_sum_of_three_is_the_sum_of_their_weights(three, tmp_path):
    weights = (0.7, -0.4, 0.7)
    (path,) = run(plan_sum(three, [weights], out_dtype="float32"), tmp_path / "out")
    assert path.name == "weights_0.7_-0.4_0.7"
    sources, got = [load_state_dict(source) for source in three], load_state_dict(path)
    for name, value in got.items():
        expected = sum(w * source[name].double() for w, source in zip(weights, sources))
        assert torch.equal(value, expected.float())
    record = json.loads((path / "cef_merge.json").read_text())
    assert record["effective_weights"] == pytest.approx(weights, abs=1e-6)
    assert [source["weight"] for source in record["sources"]] == list(weights)


@given(
    st.lists(st.floats(0, 9, width=16), min_size=2, max_size=5, unique=True).map(sorted),
    st.floats(-3, 12, width=16),
)
def test_weights_on_the_path_sum_to_one_and_find_the_place_again(ks, k):
    weights = path_weights(ks, k)
    assert sum(weights) == pytest.approx(1)
    assert sum(w * place for w, place in zip(weights, ks)) == pytest.approx(k, rel=1e-6, abs=1e-6)
    assert sum(w != 0 for w in weights) <= 2


def test_the_path_goes_through_its_checkpoints_and_on_past_the_ends(three, tmp_path):
    places = dict(zip((1, 3, 5), three))
    paths = run(plan_path(places, [0, 1, 2, 3, 5, 6]), tmp_path / "out")
    assert [path.name for path in paths] == [f"coverage_{k}" for k in (0, 1, 2, 3, 5, 6)]
    for path, pair, alpha in (
        (paths[0], three[:2], -0.5), (paths[1], three[:2], 0), (paths[2], three[:2], 0.5),
        (paths[3], three[1:], 0), (paths[4], three[1:], 1), (paths[5], three[1:], 1.5),
    ):  # fmt: skip
        (two,) = run(plan(*pair, [alpha]), tmp_path / f"two{path.name}")
        got, expected = load_state_dict(path), load_state_dict(two)
        assert all(torch.equal(got[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([0.5, 0.5], r"weights \(0.5, 0.5\): 2 for 3 checkpoints"),
        ([0.5, 0.5, 0.5], r"sum to 1.5; they must sum to 1"),
        ([float("nan"), 0, 1], "not finite"),
    ],
)
def test_weights_that_are_refused(three, weights, match):
    with pytest.raises(UserError, match=match):
        plan_sum(three, [weights])


def test_places_that_are_refused(three):
    with pytest.raises(UserError, match="two or more checkpoints at finite coverages"):
        plan_path({1: three[0]}, [2])
    with pytest.raises(UserError, match="two or more checkpoints at finite coverages"):
        plan_path({1: three[0], float("inf"): three[1]}, [2])
