"""Agents play environments: scripted ones, one's own, and a batching one."""

import json
from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym
import pytest

from cef_env.agents import Message, Reply, ScriptedAgent, make_agent, rollout
from cef_env.agents.record import record_rollouts
from cef_env.envs.text import fenced
from cef_env.errors import JudgeError, UserError
from cef_env.judge import Judge, Outcome
from cef_env.problems import ProblemSet, load


class OwnAgent:
    """What a user writes: any object with `act`."""

    def act(self, messages: list[Message]) -> str:
        assert messages[-1]["role"] == "user"
        return fenced("print(2 * int(input()))")


def make(problems: ProblemSet, judge: Judge, count: int) -> list[gym.Env[str, str]]:
    return [gym.make("cef/Reasoning-v0", problems=problems, judge=judge) for _ in range(count)]


def test_any_object_with_act_plays(doubles: ProblemSet, judge: Judge) -> None:
    (trajectory,) = rollout(make(doubles, judge, 1), OwnAgent(), ["small"], seed=0)
    assert trajectory.outcome is Outcome.CORRECT
    assert trajectory.reward == 1
    assert [message["role"] for message in trajectory.messages] == ["user", "assistant"]


def test_a_batching_agent_sees_all_open_conversations_at_once(doubles: ProblemSet, judge: Judge) -> None:
    sizes = []

    class Batching(OwnAgent):
        def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
            sizes.append(len(conversations))
            return [Reply(self.act(messages)) for messages in conversations]

    trajectories = rollout(
        make(doubles, judge, 5), Batching(), ["small", "large", "small", "large", "small"], 0
    )
    assert sizes == [5]
    assert [trajectory.problem_id for trajectory in trajectories] == [
        "small",
        "large",
        "small",
        "large",
        "small",
    ]


def test_an_instrument_fault_is_raised_and_makes_no_trajectory(doubles: ProblemSet) -> None:
    class Broken(Judge):
        def run(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            raise JudgeError("the box died twice")

    with Broken() as broken, pytest.raises(JudgeError, match="died twice"):
        rollout(make(doubles, broken, 2), OwnAgent(), ["small", "large"], seed=0)


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("efficient", Outcome.CORRECT),
        ("brute_force", Outcome.OPTIMIZATION_FAILURE),
        ("random_text", Outcome.FORMAT_ERROR),
    ],
)
def test_scripted_agents_reach_their_outcomes(judge: Judge, kind: str, outcome: Outcome) -> None:
    problems = load("builtin:hard?count=12")
    ids = [id_ for id_ in problems.ids if id_.endswith(".large")][:4]
    agent = make_agent(f"scripted:{kind}", problems)
    got = [trajectory.outcome for trajectory in rollout(make(problems, judge, len(ids)), agent, ids, seed=0)]
    if kind == "random_text":
        assert outcome in got
        assert Outcome.CORRECT not in got
    else:
        assert got == [outcome] * len(ids)


def test_a_scripted_agent_refuses_a_statement_it_does_not_know(doubles: ProblemSet, judge: Judge) -> None:
    agent = ScriptedAgent("efficient", load("builtin:easy?count=2"))
    with pytest.raises(UserError, match="not of"):
        rollout(make(doubles, judge, 1), agent, ["small"], seed=0)


@pytest.mark.parametrize(
    "spec", ["scripted:magic", "hf:", "nowhere:thing", "json:dumps", "json:nothing", "plain"]
)
def test_unknown_agents_are_refused_in_one_line(spec: str, doubles: ProblemSet) -> None:
    with pytest.raises(UserError) as error:
        make_agent(spec, doubles)
    assert "\n" not in str(error.value)


def test_a_missing_or_broken_checkpoint_is_a_user_error(tmp_path: Path, doubles: ProblemSet) -> None:
    with pytest.raises(UserError, match=r"no config\.json"):
        make_agent(f"hf:{tmp_path}", doubles)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="does not load"):
        make_agent(f"hf:{tmp_path}", doubles)


def test_recorded_trajectories_are_json_lines(tmp_path: Path) -> None:
    counts = record_rollouts(
        "cef/Reasoning-v0", "scripted:efficient", "builtin:easy?count=3", "2", seed=0, out=tmp_path
    )
    rows = [json.loads(line) for line in (tmp_path / "trajectories.jsonl").read_text().splitlines()]
    assert counts == {Outcome.CORRECT: 3}
    assert [row["reward"] for row in rows] == [1, 1, 1]


def test_recorded_trajectories_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "trajectories.jsonl").write_text("precious")
    with pytest.raises(UserError, match="holds trajectories already"):
        record_rollouts("cef/Reasoning-v0", "scripted:efficient", "builtin:easy?count=1", "2", 0, tmp_path)
    assert (tmp_path / "trajectories.jsonl").read_text() == "precious"
