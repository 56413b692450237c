"""Many episodes at once: order, waves, faults, time-outs, and what becomes of the environments."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from cef_env.agents import Message, Reply, rollout
from cef_env.agents.episode import EpisodeTimeoutError, Fault
from cef_env.agents.trajectories import row_of
from cef_env.envs.text import fenced
from cef_env.errors import InstrumentError, JudgeError, UserError
from cef_env.judge import Judge, Outcome
from cef_env.problems import ProblemSet


class OwnAgent:
    """What a user writes: any object with `act`."""

    def act(self, messages: list[Message]) -> str:
        assert messages[-1]["role"] == "user"
        return fenced("print(2 * int(input()))")


class Batching(OwnAgent):
    """Answers with what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[int]]] = []

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        lengths = [int(messages[0]["content"]) for messages in conversations]
        self.calls.append((seed, lengths))
        return [Reply(f"{seed % 100}") for _ in conversations]


class Counting(gym.Env[str, str]):
    """An episode of as many steps as its problem's id says; faults and waits when told to."""

    made: int = 0
    closed: int = 0

    def __init__(self, plan: "Plan") -> None:
        self.plan = plan
        self.closes = 0
        plan.note(self, "made")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, Any]:
        super().reset(seed=seed)
        self.id = (options or {})["problem_id"]
        self.left = int(self.id)
        return self.id, {"problem_id": self.id}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.plan.on_step(self)
        self.left -= 1
        info = {"problem_id": self.id, "outcome": "correct", "draw": int(self.np_random.integers(1 << 30))}
        return f"left {self.left}", 1.0, self.left <= 0, False, info

    def close(self) -> None:
        self.closes += 1
        self.plan.note(self, "closed")


class Plan:
    """What the environments of a test do, and what they did."""

    def __init__(self, on_step: Callable[[Counting], None] = lambda env: None) -> None:
        self.on_step = on_step
        self.lock = threading.Lock()
        self.envs: list[Counting] = []
        self.alive = self.most = 0

    def note(self, env: Counting, what: str) -> None:
        with self.lock:
            if what == "made":
                self.envs.append(env)
                self.alive += 1
                self.most = max(self.most, self.alive)
            else:
                self.alive -= env.closes == 1

    def make(self) -> Counting:
        return Counting(self)


def make(problems: ProblemSet, judge: Judge, count: int) -> list[gym.Env[str, str]]:
    return [gym.make("cef/Reasoning-v0", problems=problems, judge=judge) for _ in range(count)]


def test_any_object_with_act_plays(doubles: ProblemSet, judge: Judge) -> None:
    (trajectory,) = rollout(make(doubles, judge, 1), OwnAgent(), ["small"], seed=0)
    assert trajectory.outcome is Outcome.CORRECT
    assert trajectory.reward == 1
    assert [message["role"] for message in trajectory.messages] == ["user", "assistant"]


def test_a_batching_agent_sees_all_open_conversations_at_once() -> None:
    plan, agent = Plan(), Batching()
    rollout([plan.make() for _ in range(4)], agent, ["1", "3", "2", "3"], seed=7)
    assert agent.calls == [(7, [1, 3, 2, 3]), (8, [3, 2, 3]), (9, [3, 3])]
    assert plan.alive == 4  # they are the caller's


def test_made_environments_play_in_waves_are_used_again_and_are_closed() -> None:
    plan, agent = Plan(), Batching()
    trajectories = rollout(plan.make, agent, ["2", "1", "1", "2", "1"], seed=7, concurrency=2)
    assert [t.problem_id for t in trajectories] == ["2", "1", "1", "2", "1"]
    assert [lengths for _, lengths in agent.calls] == [[2, 1], [2], [1, 2], [2], [1]]
    assert len({seed for seed, _ in agent.calls}) == 5
    assert (len(plan.envs), plan.alive) == (2, 0)


@pytest.mark.parametrize("agent", [OwnAgent, Batching])
def test_timing_changes_nothing(agent: type[OwnAgent]) -> None:
    def played(slow: str, concurrency: int) -> list[tuple[int, ...]]:
        plan = Plan(lambda env: time.sleep(0.03 * (env.id == slow)))
        got = rollout(plan.make, agent(), ["1", "2", "3", "2", "1"], 5, concurrency)
        return [(t.info["draw"], len(t.messages)) for t in got]

    assert played("1", 3) == played("3", 3) == played("2", 3 if agent is Batching else 1)


def test_answers_of_plain_agents_overlap() -> None:
    together = threading.Barrier(4)

    class Waiting(OwnAgent):
        def act(self, messages: list[Message]) -> str:
            together.wait(10)
            return "x"

    assert len(rollout(Plan().make, Waiting(), ["1"] * 8, seed=0, concurrency=4)) == 8


def test_an_instrument_fault_is_raised_and_makes_no_trajectory(doubles: ProblemSet) -> None:
    class Broken(Judge):
        def run(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            raise JudgeError("the box died twice")

    with Broken() as broken, pytest.raises(JudgeError, match="died twice"):
        rollout(make(doubles, broken, 2), OwnAgent(), ["small", "large"], seed=0)


@pytest.mark.parametrize("agent", [OwnAgent, Batching])
def test_a_fault_is_tried_again_in_a_fresh_environment(agent: type[OwnAgent]) -> None:
    faulty: list[Counting] = []

    def on_step(env: Counting) -> None:
        if env.id == "2" and len(faulty) < 2:
            faulty.append(env)
            raise InstrumentError("died")

    plan, faults = Plan(on_step), list[Fault]()
    trajectories = rollout(plan.make, agent(), ["1", "2", "3"], 0, retries=2, faults=faults)
    assert [t.problem_id for t in trajectories] == ["1", "2", "3"]
    assert faults == []
    assert faulty[0] is not faulty[1]
    assert [env.closes for env in faulty] == [1, 1]
    assert plan.alive == 0


@pytest.mark.parametrize("agent", [OwnAgent, Batching])
def test_what_stays_faulty_is_told_apart(agent: type[OwnAgent]) -> None:
    def on_step(env: Counting) -> None:
        if env.id == "2":
            raise InstrumentError("died")

    plan, faults = Plan(on_step), list[Fault]()
    trajectories = rollout(plan.make, agent(), ["2", "1", "2", "3"], 0, 2, retries=1, faults=faults)
    assert [t.problem_id for t in trajectories] == ["1", "3"]
    assert faults == [Fault(0, "2", "died", 2, False), Fault(2, "2", "died", 2, False)]
    assert plan.alive == 0


@pytest.mark.parametrize("agent", [OwnAgent, Batching])
def test_a_step_that_hangs_is_left_behind_and_blocks_no_other(agent: type[OwnAgent]) -> None:
    go = threading.Event()
    plan = Plan(lambda env: go.wait(60) if env.id == "2" else None)  # type: ignore[arg-type,return-value]
    faults: list[Fault] = []
    started = time.monotonic()
    got = rollout(plan.make, agent(), ["2", "1", "3", "1"], 0, 1, step_timeout_s=0.2, faults=faults)
    assert time.monotonic() - started < 10
    assert [t.problem_id for t in got] == ["1", "3", "1"]
    assert faults == [Fault(0, "2", "a step took longer than 0.2 s", 1, True)]
    assert plan.alive == 1  # the one that hangs
    go.set()
    deadline = time.monotonic() + 10
    while plan.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert plan.alive == 0  # it was closed when its step had ended


@pytest.mark.parametrize("agent", [OwnAgent, Batching])
def test_an_episode_over_its_time_is_no_trajectory(agent: type[OwnAgent]) -> None:
    plan = Plan(lambda env: time.sleep(0.1))
    faults: list[Fault] = []
    got = rollout(plan.make, agent(), ["9", "1"], 0, 1, episode_timeout_s=0.35, faults=faults)
    assert [t.problem_id for t in got] == ["1"]
    assert [(f.index, f.reason, f.timed_out) for f in faults] == [
        (0, "the episode took longer than 0.35 s", True)
    ]
    with pytest.raises(EpisodeTimeoutError):
        rollout(plan.make, agent(), ["9"], 0, 1, episode_timeout_s=0.35)


def test_an_agent_that_hangs_is_left_behind_with_its_episode() -> None:
    go = threading.Event()

    class Hanging(OwnAgent):
        def act(self, messages: list[Message]) -> str:
            if messages[0]["content"] == "2":
                go.wait(60)
            return "x"

    plan, faults = Plan(), list[Fault]()
    got = rollout(plan.make, Hanging(), ["2", "1"], 0, 1, episode_timeout_s=0.3, faults=faults)
    assert [t.problem_id for t in got] == ["1"]
    assert [f.index for f in faults] == [0]
    assert plan.alive == 0  # nobody is in its environment
    go.set()


def test_a_server_that_is_down_is_a_fault_of_the_instrument() -> None:
    class Down(Batching):
        def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
            if not self.calls:
                self.calls.append((seed, []))
                raise InstrumentError("connection refused")
            return super().act_batch(conversations, seed)

    faults: list[Fault] = []
    assert rollout(Plan().make, Down(), ["1", "1", "1"], 0, 2, faults=faults) != []
    assert [(f.index, f.reason) for f in faults] == [(0, "connection refused"), (1, "connection refused")]
    assert len(rollout(Plan().make, Down(), ["1", "1", "1"], 0, 2, retries=1)) == 3


@pytest.mark.parametrize("agent", [OwnAgent, Batching])
def test_a_mistake_of_the_agent_names_the_episode_and_closes_everything(agent: type[OwnAgent]) -> None:
    class Wrong(agent):  # type: ignore[misc,valid-type]
        def act(self, messages: list[Message]) -> str:
            raise ZeroDivisionError

        def act_batch(self, *_: object) -> list[Reply]:
            raise ZeroDivisionError

    if agent is OwnAgent:
        del Wrong.act_batch
    plan = Plan()
    with pytest.raises(
        UserError, match=r"episode 0 \(problem 7\): ZeroDivisionError.*test_rollout.py"
    ) as caught:
        rollout(plan.make, Wrong(), ["7", "7"], 0, concurrency=1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert plan.alive == 0


@pytest.mark.parametrize("agent", [OwnAgent, Batching])
@pytest.mark.parametrize("event", [SystemExit(0), StopIteration(), asyncio.CancelledError()])
def test_an_agent_that_exits_has_not_done_its_work(agent: type[OwnAgent], event: BaseException) -> None:
    class Exits(agent):  # type: ignore[misc,valid-type]
        def act(self, messages: list[Message]) -> str:
            raise event

        def act_batch(self, *_: object) -> list[Reply]:
            raise event

    if agent is OwnAgent:
        del Exits.act_batch
    with pytest.raises(UserError, match=f"episode 0 .*{type(event).__name__}"):
        rollout(Plan().make, Exits(), ["1"], 0)


@pytest.mark.parametrize("said", [None, b"x", 5, ["x"]])
def test_an_answer_that_is_no_text_is_refused(said: Any) -> None:
    class Wrong(OwnAgent):
        def act(self, messages: list[Message]) -> str:
            return said

    with pytest.raises(UserError, match=f"returned {type(said).__name__}: act returns a str"):
        rollout(Plan().make, Wrong(), ["1"], 0)


@pytest.mark.parametrize(
    ("replies", "named"),
    [
        (None, "NoneType for 2 conversations"),
        ([Reply("x")], "1 for 2 conversations"),
        ([Reply("x")] * 3, "3 for 2 conversations"),
        (["x", "x"], "returned str: .* a Reply"),
        ([Reply(None)] * 2, "returned NoneType"),  # type: ignore[arg-type]
        ([Reply("x", (1,), (0.5,))] * 2, "no numbers: 'float'"),  # type: ignore[arg-type]
        ([Reply("x", (1,), (2,), (float("nan"),))] * 2, "log-prob that is not finite"),
        ([Reply("x", (1,), (2,), (float("-inf"),))] * 2, "log-prob that is not finite"),
    ],
)
def test_replies_that_cannot_be_kept_are_refused(replies: Any, named: str) -> None:
    class Wrong(Batching):
        def act_batch(self, *_: object) -> list[Reply]:
            return replies

    with pytest.raises(UserError, match=named):
        rollout(Plan().make, Wrong(), ["1", "1"], 0)


def test_numbers_of_numpy_become_plain() -> None:
    class Arrays(Batching):
        def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
            reply: Any = Reply("x", np.arange(2), np.arange(2, 4), np.array([-0.5, 0], np.float32))  # type: ignore[arg-type]
            return [reply for _ in conversations]

    trajectory = rollout(Plan().make, Arrays(), ["1"], 0)[0]
    assert json.loads(json.dumps(row_of(trajectory)["replies"])) == [
        {"cut": False, "prompt_ids": [0, 1], "token_ids": [2, 3], "logprobs": [-0.5, 0.0]}
    ]


@pytest.mark.parametrize("agent", [OwnAgent, Batching])
def test_what_an_agent_does_with_its_messages_changes_nothing(agent: type[OwnAgent]) -> None:
    class Changes(agent):  # type: ignore[misc,valid-type]
        def act(self, messages: list[Message]) -> str:
            for message in messages:
                message["content"] = "changed"
            messages.clear()
            return "x"

        def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
            return [Reply(self.act(messages)) for messages in conversations]

    if agent is OwnAgent:
        del Changes.act_batch
    [trajectory] = rollout(Plan().make, Changes(), ["2"], 0)
    assert [message["content"] for message in trajectory.messages] == ["2", "x", "left 1", "x"]


def test_no_more_environments_are_alive_than_may_be() -> None:
    plan = Plan()
    rollout(plan.make, OwnAgent(), ["1", "2", "3"] * 10, 0, concurrency=3)
    assert plan.most <= 3
    assert plan.alive == 0


def test_an_interrupt_leaves_running_steps_behind_and_closes_the_rest() -> None:
    class Interrupted(Batching):
        def act_batch(self, *_: object) -> list[Reply]:
            raise KeyboardInterrupt

    plan = Plan()
    with pytest.raises(KeyboardInterrupt):
        rollout(plan.make, Interrupted(), ["1", "1"], 0)
    assert len(plan.envs) == 2
    assert plan.alive == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"concurrency": 0}, "concurrency=0"),
        ({"step_timeout_s": -1}, "step_timeout_s=-1"),
        ({"episode_timeout_s": 0}, "episode_timeout_s=0"),
        ({"retries": -1}, "retries=-1"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named):
        rollout(Plan().make, OwnAgent(), ["1"], 0, **options)
    with pytest.raises(UserError, match="2 environments for 1"):
        rollout([Plan().make(), Plan().make()], OwnAgent(), ["1"], 0)
