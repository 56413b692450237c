"""The single-turn environment: Gymnasium's contract, and R_k from the judge."""

import json

import gymnasium as gym
import pytest

from cef_env.envs import CutText, ReasoningEnv, Unicode
from cef_env.envs.text import fenced
from cef_env.errors import UserError
from cef_env.judge import Judge
from cef_env.problems import ProblemSet
from cef_env.rewards import CoverageReward

GOOD = fenced("print(2 * int(input()))")
# Right only below 10^20: correct at coverage 1, wrong at larger ones.
SHORT_SIGHTED = fenced("n = int(input())\nprint(2 * n if n < 10**20 else 0)")


def make(problems: ProblemSet, judge: Judge, **kwargs: object) -> gym.Env[str, str]:
    return gym.make("cef/Reasoning-v0", problems=problems, judge=judge, **kwargs)


@pytest.mark.parametrize(
    ("coverage", "answer", "reward"),
    [(1, SHORT_SIGHTED, 1), (2, SHORT_SIGHTED, 0), (None, SHORT_SIGHTED, 0), ("inf", GOOD, 1)],
)
def test_reward_is_r_k(doubles: ProblemSet, judge: Judge, coverage: object, answer: str, reward: int) -> None:
    env = make(doubles, judge, coverage=coverage)
    env.reset(options={"problem_id": "small"})
    _, got, terminated, truncated, _ = env.step(answer)
    assert (got, terminated, truncated) == (reward, True, False)


def test_only_the_tests_of_the_coverage_are_run(doubles: ProblemSet, judge: Judge) -> None:
    env = make(doubles, judge, coverage=1)
    env.reset(options={"problem_id": "small"})
    env.step(GOOD)
    assert [test.length for test in env.unwrapped.result.tests] == [1, 3]


def test_info_tells_outcome_and_coverage_reached(doubles: ProblemSet, judge: Judge) -> None:
    env = make(doubles, judge)
    env.reset(options={"problem_id": "small"})
    info = env.step(SHORT_SIGHTED)[4]
    assert info["outcome"] == "correctness_failure"
    assert info["coverage_reached"] == 1
    assert info["levels"] == (1, 2, 3)
    json.dumps(info)


@pytest.mark.parametrize(
    ("answer", "cause"), [("no program here", "no_code"), (CutText("```python\nprint("), "out_of_tokens")]
)
def test_an_answer_without_a_program_is_a_format_error_with_its_cause(
    doubles: ProblemSet, judge: Judge, answer: str, cause: str
) -> None:
    env = make(doubles, judge)
    env.reset(seed=0)
    _, reward, _, _, info = env.step(answer)
    assert (reward, info["outcome"], info["format_error"]) == (0, "format_error", cause)


def test_problems_without_a_test_under_the_coverage_are_dropped_and_counted(
    doubles: ProblemSet, judge: Judge
) -> None:
    env = make(doubles, judge, coverage=1)
    assert env.unwrapped.dropped == 1
    assert {env.reset(seed=seed)[1]["problem_id"] for seed in range(20)} == {"small"}
    with pytest.raises(UserError, match="no test under 10\\^1"):
        env.reset(options={"problem_id": "large"})


def test_seeds_choose_problems(judge: Judge) -> None:
    env = make(ReasoningEnv(problems="builtin:easy?count=50").problems, judge)
    first = [env.reset(seed=seed)[1]["problem_id"] for seed in range(10)]
    assert first == [env.reset(seed=seed)[1]["problem_id"] for seed in range(10)]
    assert len(set(first)) > 5


@pytest.mark.parametrize("coverage", [0, -1, 2.5, "five", True])
def test_unknown_coverage_is_refused(doubles: ProblemSet, coverage: object) -> None:
    with pytest.raises(UserError, match="coverage="):
        ReasoningEnv(problems=doubles, coverage=coverage)  # type: ignore[arg-type]


def test_unknown_reset_option_and_problem_are_refused(doubles: ProblemSet, judge: Judge) -> None:
    env = make(doubles, judge)
    with pytest.raises(UserError, match="colour"):
        env.reset(options={"colour": 1})
    with pytest.raises(UserError, match="no problem 'nowhere'"):
        env.reset(options={"problem_id": "nowhere"})


def test_stepping_after_the_end_asks_for_reset(doubles: ProblemSet, judge: Judge) -> None:
    env = make(doubles, judge).unwrapped
    env.reset(seed=0)
    env.step("x")
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")


def test_render_shows_the_conversation(doubles: ProblemSet, judge: Judge) -> None:
    env = make(doubles, judge, render_mode="ansi")
    env.reset(options={"problem_id": "small"})
    env.step(GOOD)
    shown = env.render()
    assert "print its double" in shown
    assert "print(2 * int(input()))" in shown
    assert "correct" in shown


def test_coverage_reward_reads_the_same_result(doubles: ProblemSet, judge: Judge) -> None:
    env = CoverageReward(make(doubles, judge), coverage=1)
    env.reset(options={"problem_id": "small"})
    assert env.step(SHORT_SIGHTED)[1] == 1
    assert env.unwrapped.result.reward(None) == 0


def test_coverage_reward_beyond_what_is_judged_is_refused(doubles: ProblemSet, judge: Judge) -> None:
    with pytest.raises(UserError, match="judges coverage 2 only"):
        CoverageReward(make(doubles, judge, coverage=2), coverage=3)


def test_sync_and_thread_free_vector_form_works() -> None:
    envs = gym.make_vec("cef/Reasoning-v0", num_envs=3, problems="builtin:easy?count=4")
    observations, _ = envs.reset(seed=0)
    assert len(observations) == 3
    assert envs.step(("a", "b", "c"))[2].all()
    envs.close()


def test_shared_memory_fails_loudly_instead_of_returning_filler() -> None:
    from gymnasium.error import CustomSpaceError
    from gymnasium.vector.utils import create_shared_memory

    with pytest.raises(CustomSpaceError):
        create_shared_memory(Unicode(), n=2)


def test_unicode_space_holds_any_string_and_only_strings() -> None:
    space = Unicode(seed=3)
    assert space.contains("")
    assert space.contains("漢字 🙂 \x00\n")
    assert not space.contains(b"bytes")
    assert space == Unicode()
    assert space.sample() in space
