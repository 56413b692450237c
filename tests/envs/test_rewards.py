"""Shaped rewards: what they are worth on one result, and what they refuse to guess."""

import json
import math

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from hypothesis import given
from hypothesis import strategies as st

from cef_env.envs.text import fenced
from cef_env.errors import UserError
from cef_env.judge import Judge
from cef_env.problems import Problem, ProblemSet, TestCase
from cef_env.rewards import ContinuousReward, CoverageReward, DiscreteReward, OutcomeInfo

LENGTHS = (1, 3, 20, 30, 300)  # two tests of level 1, two of level 2, one of level 3


def number(length: int) -> int:
    return int("7" * length)


def doubles(*lengths: int) -> ProblemSet:
    tests = tuple(TestCase(str(number(n)), str(2 * number(n))) for n in lengths or LENGTHS)
    return ProblemSet.of([Problem("d", "D", "Double.", tests)])


def right_up_to(length: int) -> str:
    return fenced(f"s = input()\nprint(2 * int(s) if len(s) <= {length} else 0)")


def wrong_only_at(length: int) -> str:
    return fenced(f"s = input()\nprint(2 * int(s) if len(s) != {length} else 0)")


def reward(env: gym.Env[str, str], answer: str) -> float:
    env.reset(seed=0)
    return float(env.step(answer)[1])


def make(judge: Judge, *lengths: int, **arguments: object) -> gym.Env[str, str]:
    return gym.make("cef/Reasoning-v0", problems=doubles(*lengths), judge=judge, **arguments)


@pytest.mark.parametrize(("length", "worth"), [(0, 0.0), (3, 0.5), (20, 0.5), (30, 0.8), (300, 1.0)])
def test_discrete_is_the_weighted_sum_of_levels(judge: Judge, length: int, worth: float) -> None:
    env = DiscreteReward(make(judge), levels=[1, 2, "inf"], weights=[0.5, 0.3, 0.2])
    assert reward(env, right_up_to(length)) == pytest.approx(worth)


def test_discrete_weights_are_equal_by_default(judge: Judge) -> None:
    assert reward(DiscreteReward(make(judge), [1, 2, None]), right_up_to(30)) == pytest.approx(2 / 3)


def test_discrete_leaves_out_levels_that_a_problem_has_not(judge: Judge) -> None:
    env = DiscreteReward(make(judge, 20, 300), levels=[1, 2, 3], weights=[2, 1, 1])
    assert reward(env, right_up_to(300)) == pytest.approx(4)
    assert reward(env, right_up_to(20)) == pytest.approx(2)
    with pytest.raises(UserError, match="add a larger level"):
        reward(DiscreteReward(make(judge, 300), levels=[1, 2]), right_up_to(300))


@pytest.mark.parametrize(
    ("length", "worth"), [(0, 0.0), (1, 1 / 6), (3, 1 / 3), (20, 1 / 2), (30, 2 / 3), (300, 1.0)]
)
def test_continuous_is_the_mean_over_levels(judge: Judge, length: int, worth: float) -> None:
    assert reward(ContinuousReward(make(judge)), right_up_to(length)) == pytest.approx(worth)


def test_continuous_weights_belong_to_levels(judge: Judge) -> None:
    env = ContinuousReward(make(judge), levels=[1, 3], weights=[1, 3])
    assert reward(env, right_up_to(30)) == pytest.approx(0.25)
    assert reward(env, right_up_to(1)) == pytest.approx(0.125)


def test_continuous_counts_tests_after_a_failure_only_when_they_were_run(judge: Judge) -> None:
    assert reward(ContinuousReward(make(judge)), wrong_only_at(3)) == pytest.approx(1 / 6)
    env = ContinuousReward(make(judge, exhaustive=True))
    assert reward(env, wrong_only_at(3)) == pytest.approx(5 / 6)


def test_continuous_counts_only_tests_of_the_coverage(judge: Judge) -> None:
    assert reward(ContinuousReward(make(judge, coverage=2)), right_up_to(30)) == pytest.approx(1)


def test_continuous_without_a_test_of_its_levels_is_an_error(judge: Judge) -> None:
    env = ContinuousReward(make(judge, 1, 300), levels=[2])
    with pytest.raises(UserError, match=r"only of \[1, 3\]"):
        reward(env, right_up_to(300))


@pytest.mark.parametrize("answer", ["no program", fenced("print(1")])
def test_an_answer_without_a_program_is_worth_nothing(judge: Judge, answer: str) -> None:
    wrapped = [
        DiscreteReward(make(judge), [1, 2]),
        ContinuousReward(make(judge)),
        CoverageReward(make(judge)),
    ]
    assert [reward(env, answer) for env in wrapped] == [0, 0, 0]


def test_levels_that_are_not_judged_are_refused(judge: Judge) -> None:
    env = make(judge, coverage=2)
    for wrap in (
        lambda: DiscreteReward(env, [1, 3]),
        lambda: DiscreteReward(env, [1, "inf"]),
        lambda: ContinuousReward(env, [1, 3]),
        lambda: CoverageReward(env, 3),
    ):
        with pytest.raises(UserError, match="judges coverage 2 only"):
            wrap()


@pytest.mark.parametrize(
    ("levels", "weights"),
    [
        ([], None),
        ([1, 2], [1.0]),
        ([2, 1], None),
        ([1, 1], None),
        ([1], [0]),
        ([1], [-1.0]),
        ([1], [math.nan]),
        ([1], [math.inf]),
        ([1], ["1"]),
        ([1], [True]),
        ([0], None),
    ],
)
@pytest.mark.parametrize("wrapper", [DiscreteReward, ContinuousReward])
def test_levels_and_weights_that_make_no_sense_are_refused(
    judge: Judge, wrapper: type[DiscreteReward] | type[ContinuousReward], levels: list[int], weights: object
) -> None:
    with pytest.raises(UserError, match=r"levels|weights|coverage="):
        wrapper(make(judge), levels, weights)  # type: ignore[arg-type]


def test_continuous_wants_levels_beside_weights(judge: Judge) -> None:
    with pytest.raises(UserError, match="give levels"):
        ContinuousReward(make(judge), weights=[1.0])
    with pytest.raises(UserError, match="inf is no length"):
        ContinuousReward(make(judge), levels=[1, "inf"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("wrapper", "arguments"),
    [
        (DiscreteReward, {"levels": (1, "inf"), "weights": (0.5, 0.5)}),
        (ContinuousReward, {"levels": [1, 2], "weights": [1, 2]}),
        (ContinuousReward, {}),
        (OutcomeInfo, {"times": True}),
    ],
)
def test_wrappers_are_rebuilt_from_the_spec(wrapper: type[gym.Wrapper], arguments: dict[str, object]) -> None:
    env = wrapper(gym.make("cef/Reasoning-v0", problems="builtin:easy?count=2"), **arguments)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, wrapper)
    assert getattr(again, "weights", None) == getattr(env, "weights", None)


def test_outcome_info_tells_every_level_and_the_first_failure(judge: Judge) -> None:
    env = OutcomeInfo(make(judge))
    env.reset(seed=0)
    _, got, _, _, info = env.step(right_up_to(20))
    assert got == 0
    assert info["rewards"] == {"1": 1, "2": 0, "3": 0}
    assert (info["tests_passed"], info["tests_run"]) == (3, 4)
    assert (info["failed_verdict"], info["failed_length"]) == ("wrong_answer", 30)
    assert "cpu_s" not in info
    json.dumps(info)


def test_outcome_info_of_no_program_and_with_times(judge: Judge) -> None:
    env = OutcomeInfo(make(judge, coverage=2), times=True)
    env.reset(seed=0)
    info = env.step("nothing")[4]
    assert (info["tests_run"], info["failed_verdict"], info["failed_length"]) == (0, "", -1)
    assert math.isnan(info["cpu_s"])
    env.reset(seed=0)
    info = env.step(right_up_to(300))[4]
    assert info["rewards"] == {"1": 1, "2": 1}
    assert info["memory_mb"] > 0


@given(st.lists(st.booleans(), min_size=5, max_size=5))
def test_rewards_of_one_result_agree(accepted: list[bool]) -> None:
    """More tests passed before the first failure is never worth less, and all passed is worth everything."""
    from cef_env.judge import JudgeResult, TestResult, Verdict, classify

    first = accepted.index(False) if False in accepted else 5
    verdicts = [Verdict.ACCEPTED] * first + ([Verdict.WRONG_ANSWER] if first < 5 else [])
    tests = [TestResult(length, verdict, 0, 0, 0) for length, verdict in zip(LENGTHS, verdicts)]
    problem = doubles().get("d")
    result = JudgeResult("d", classify(tests), tuple(tests), problem.levels)
    env = gym.make("cef/Reasoning-v0", problems="builtin:easy?count=1")
    discrete = DiscreteReward(env, [1, 2, 3]).reward_of(result, problem)
    continuous = ContinuousReward(env).reward_of(result, problem)
    assert result.reward() <= discrete <= continuous + 1e-9 <= 1 + 2e-9
    assert (continuous == pytest.approx(1)) is (first == 5)
