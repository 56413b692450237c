"""Many environments in threads: overlap, automatic resets, masks, and what one that fails leads to."""

import threading
import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from cef_env.envs import ReasoningEnv, ThreadVectorEnv, ToolUseEnv
from cef_env.envs.text import fenced
from cef_env.envs.tools import call_text
from cef_env.envs.vector import VectorStepError
from cef_env.errors import JudgeError, UserError
from cef_env.judge import Judge, JudgeResult
from tests.envs.stubs import StubJudge, shown

IDS = ("cef/Reasoning-v0", "cef/ToolUse-v0", "cef/Agentic-v0", "cef/Repair-v0")
GOOD, BAD = fenced("good"), fenced("bad")


class ToldJudge(StubJudge):
    """Waits or fails when the program says so."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.finished = 0

    def run(self, problem: Any, program: str, *args: Any, **kwargs: Any) -> JudgeResult:
        if "wait" in program:
            assert self.go.wait(10)
        if "fault" in program:
            raise JudgeError("the box died twice")
        self.finished += 1
        return super().run(problem, program, *args, **kwargs)


def vector(num_envs: int, judge: object = None, **arguments: Any) -> ThreadVectorEnv:
    judge = judge or StubJudge()
    envs = gym.make_vec("cef/Reasoning-v0", num_envs, problems=[shown()], judge=judge, **arguments)
    assert isinstance(envs, ThreadVectorEnv)
    envs.reset(seed=0)
    return envs


@pytest.mark.parametrize("id_", IDS)
def test_make_vec_comes_here_and_its_spec_rebuilds_it(id_: str) -> None:
    envs = gym.make_vec(id_, 3, problems="builtin:easy?count=4", coverage=2, autoreset_mode="Disabled")
    assert isinstance(envs, ThreadVectorEnv)
    again = gym.make_vec(gym.envs.registration.EnvSpec.from_json(envs.spec.to_json()))
    assert again.num_envs == 3
    assert again.autoreset_mode == gym.vector.AutoresetMode.DISABLED
    assert again.reset(seed=4)[0] == envs.reset(seed=4)[0]
    again.close()
    envs.close()


def test_it_does_what_the_serial_vector_does() -> None:
    def played(mode: str | None) -> list[Any]:
        envs = gym.make_vec("cef/Reasoning-v0", 3, mode, problems="builtin:easy?count=9")
        steps: list[Any] = [envs.reset(seed=7)]
        steps += [envs.step(("prose", "prose", "prose")) for _ in range(3)]
        envs.close()
        return steps

    for ours, theirs in zip(played(None), played("sync"), strict=True):
        assert ours[0] == theirs[0]
        assert data_equivalence(ours[1:], theirs[1:])


def test_sixty_four_tool_calls_overlap(judge: Judge) -> None:
    """Each sleeps half a second; on two cores all of them should take two at most."""
    envs = gym.make_vec("cef/ToolUse-v0", 64, problems=[shown()], judge=judge)
    envs.reset(seed=0)
    envs.step([call_text("python", "code", "print(1)")] * 64)
    started = time.perf_counter()
    observations = envs.step([call_text("python", "code", "import time; time.sleep(0.5); print(2)")] * 64)[0]
    took = time.perf_counter() - started
    envs.close()
    assert all(observation.startswith("<tool_response>\n2\n") for observation in observations)
    assert took < 8  # one after the other they take 32; tests share the machine


def test_one_that_blocks_does_not_stop_the_others() -> None:
    judge = ToldJudge()
    envs = vector(4, judge)
    stepping = threading.Thread(target=lambda: envs.step([fenced("wait good"), GOOD, GOOD, GOOD]))
    stepping.start()
    deadline = time.monotonic() + 5
    while judge.finished < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert judge.finished == 3
    judge.go.set()
    stepping.join()
    assert judge.finished == 4


def test_the_next_step_resets_by_default() -> None:
    envs = vector(2)
    _, rewards, terminations, _, infos = envs.step([GOOD, BAD])
    assert rewards.tolist() == [1, 0]
    assert terminations.all()
    assert infos["outcome"].tolist() == ["correct", "correctness_failure"]
    observations, rewards, terminations, _, infos = envs.step(["ignored", "ignored"])
    assert observations[0].startswith("Read one integer")
    assert not terminations.any()
    assert "outcome" not in infos
    assert envs.step([GOOD, GOOD])[1].tolist() == [1, 1]


def test_the_same_step_resets_when_asked() -> None:
    envs = vector(2, autoreset_mode="SameStep")
    for _ in range(2):
        observations, rewards, terminations, _, infos = envs.step([GOOD, BAD])
        assert rewards.tolist() == [1, 0]
        assert terminations.all()
        assert observations[0].startswith("Read one integer")
        assert infos["final_obs"].tolist() == ["Outcome: correct\n", "Outcome: correctness_failure\n"]
        assert infos["final_info"]["outcome"].tolist() == ["correct", "correctness_failure"]


def test_without_autoreset_a_mask_resets_some() -> None:
    def make() -> ToolUseEnv:
        return ToolUseEnv(problems=[shown()], judge=StubJudge())  # type: ignore[arg-type]

    envs = ThreadVectorEnv([make] * 3, "Disabled")
    envs.reset(seed=0)
    broken = "<tool_call>{}</tool_call>"
    envs.step([GOOD, broken, BAD])
    with pytest.raises(gym.error.ResetNeeded, match="environment 0"):
        envs.step([GOOD] * 3)
    observations, infos = envs.reset(options={"reset_mask": np.array([True, False, True])})
    assert observations[1].startswith("<tool_response>")
    assert infos["_problem_id"].tolist() == [True, False, True]
    assert envs.step([GOOD] * 3)[4]["turns"].tolist() == [1, 2, 1]


@pytest.mark.parametrize("mask", [[True], np.zeros(2, dtype=bool), np.ones(2), "yes"])
def test_a_mask_that_makes_no_sense_is_refused(mask: object) -> None:
    with pytest.raises(UserError, match="reset_mask"):
        vector(2).reset(options={"reset_mask": mask})


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_a_fault_is_raised_with_all_that_the_others_did(mode: str) -> None:
    envs = vector(3, ToldJudge(), autoreset_mode=mode)
    with pytest.raises(VectorStepError, match=r"environment 1 .* died twice") as caught:
        envs.step([GOOD, fenced("fault"), BAD])
    assert list(caught.value.faults) == [1]
    _, rewards, terminations, truncations, infos = caught.value.batch
    assert rewards[[0, 2]].tolist() == [1, 0]
    assert np.isnan(rewards[1])
    assert (terminations.tolist(), truncations.tolist()) == ([True, False, True], [False, True, False])
    assert infos["_instrument_fault"].tolist() == [False, True, False]
    if mode == "Disabled":
        envs.reset(options={"reset_mask": np.ones(3, dtype=bool)})
    if mode == "NextStep":
        envs.step([GOOD] * 3)
    # The faulty environment resets where the others of the same step do not need it any more.
    assert envs.step([GOOD] * 3)[1].tolist() == ([1, 0, 1] if mode == "SameStep" else [1, 1, 1])


def test_a_fault_is_marked_when_asked() -> None:
    envs = vector(2, ToldJudge(), on_fault="mark")
    _, rewards, _, truncations, infos = envs.step([GOOD, fenced("fault")])
    assert np.isnan(rewards[1])
    assert truncations.tolist() == [False, True]
    assert infos["instrument_fault"][1] == "the box died twice"


def test_actions_are_checked_before_any_environment_steps() -> None:
    judge = ToldJudge()
    envs = vector(2, judge)
    for actions, named in (([GOOD], "1 for 2"), ([GOOD, None], r"actions\[1\] of type NoneType")):
        with pytest.raises(UserError, match=named):
            envs.step(actions)  # type: ignore[arg-type]
    assert judge.finished == 0


def test_each_environment_can_get_a_problem_and_a_seed_of_its_own() -> None:
    problems = [shown("a"), shown("b")]
    envs = gym.make_vec("cef/Reasoning-v0", 2, problems=problems, judge=StubJudge())
    assert envs.reset(options={"problem_id": ["b", "a"]})[1]["problem_id"].tolist() == ["b", "a"]
    assert envs.reset(options={"problem_id": "b"})[1]["problem_id"].tolist() == ["b", "b"]
    envs.reset(seed=[1, 1])
    assert envs.np_random_seed == (1, 1)
    with pytest.raises(UserError, match="problem_id: 3 for 2"):
        envs.reset(options={"problem_id": ["a", "b", "a"]})
    with pytest.raises(UserError, match="seed: 1 for 2"):
        envs.reset(seed=[1])
    with pytest.raises(UserError, match="no problem 'c'"):
        envs.reset(options={"problem_id": ["a", "c"]})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"autoreset_mode": "Never"}, "autoreset_mode="), ({"on_fault": "hide"}, "on_fault=")],
)
def test_unknown_modes_are_refused(arguments: dict[str, str], named: str) -> None:
    with pytest.raises(UserError, match=named):
        vector(1, **arguments)


def test_closing_ends_environments_and_threads() -> None:
    closed = []

    class Closing(ReasoningEnv):
        def close(self) -> None:
            closed.append(self)

    envs = ThreadVectorEnv([lambda: Closing(problems=[shown()])] * 5)
    envs.reset()
    threads = list(envs._crew._threads)
    envs.close()
    envs.close()
    assert len(closed) == 5
    assert threads
    assert not any(thread.is_alive() for thread in threads)


def test_a_step_over_its_time_is_a_fault_that_blocks_no_other() -> None:
    judge = ToldJudge()
    envs = vector(3, judge, on_fault="mark", autoreset_mode="Disabled", step_timeout_s=0.5)
    stuck = envs.envs[1]
    _, rewards, terminations, truncations, infos = envs.step([GOOD, fenced("wait"), BAD])
    assert rewards[[0, 2]].tolist() == [1, 0]
    assert np.isnan(rewards[1])
    assert (terminations.tolist(), truncations.tolist()) == ([True, False, True], [False, True, False])
    assert infos["instrument_fault"][1] == "a step took longer than 0.5 s"
    envs.reset(options={"reset_mask": np.ones(3, dtype=bool)})
    assert envs.envs[1] is not stuck
    assert envs.step([GOOD] * 3)[1].tolist() == [1, 1, 1]
    judge.go.set()
    envs.close()


def test_a_step_that_never_ends_does_not_keep_a_vector_from_closing() -> None:
    judge = ToldJudge()
    closed = threading.Event()

    class Closing(ReasoningEnv):
        def close(self) -> None:
            closed.set()

    envs = ThreadVectorEnv([lambda: Closing(problems=[shown()], judge=judge)], step_timeout_s=0.2)  # type: ignore[arg-type]
    envs.reset()
    with pytest.raises(VectorStepError, match="longer than"):
        envs.step([fenced("wait")])
    envs.close()
    assert not closed.is_set()
    judge.go.set()
    assert closed.wait(10)


@pytest.mark.parametrize("value", [5, 1.5, "abc", b"x"])
def test_what_is_no_list_for_all_is_refused(value: object) -> None:
    envs = gym.make_vec("cef/Reasoning-v0", 3, problems=[shown()], judge=StubJudge())
    envs.reset(seed=0)
    named = "in a list|for 3 environments|of type int: an action is a str|give the id of a problem"
    with pytest.raises(UserError, match=named):
        envs.step(value)  # type: ignore[arg-type]
    if not isinstance(value, int):
        with pytest.raises(UserError, match="seed"):
            envs.reset(seed=value)  # type: ignore[arg-type]
    if not isinstance(value, str):
        with pytest.raises(UserError, match="problem_id"):
            envs.reset(options={"problem_id": value})
    envs.close()


def test_a_closed_vector_starts_nothing() -> None:
    others = set(threading.enumerate())
    envs = gym.make_vec("cef/Reasoning-v0", 2, problems=[shown()], judge=StubJudge())
    envs.reset(seed=0)
    envs.close()
    for use in (lambda: envs.step(["x", "x"]), envs.reset):
        with pytest.raises(gym.error.ClosedEnvironmentError):
            use()
    assert not [thread for thread in set(threading.enumerate()) - others if thread.name == "cef-env"]
