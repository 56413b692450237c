"""Episodes without a trainer: what they tell, and what happens to their environments."""

from pathlib import Path
from typing import Any

import pytest

from cef_env.errors import InstrumentError, UserError
from cef_env.judge import Outcome
from cef_env.problems import jsonl
from cef_env.training.openrlhf.environments import Environments, Label
from cef_env.training.openrlhf.episode import LOGS, MOST_FAULTS, Episode, Faults
from cef_env.training.openrlhf.settings import AgentSettings
from tests.envs.stubs import StubJudge, shown

GOOD, BAD = "```python\ngood\n```", "```python\nbad\n```"


class Broken(StubJudge):
    def run(self, *_: Any, **__: Any) -> Any:
        raise InstrumentError("the box\ndied")


@pytest.fixture
def source(tmp_path: Path) -> str:
    jsonl.write(tmp_path / "p.jsonl", [shown()])
    return f"jsonl:{tmp_path / 'p.jsonl'}"


def environments(setting: str = "reasoning", judge: Any = None, **change: Any) -> Environments:
    settings = AgentSettings.model_validate({"environment": {"setting": setting}, **change})
    return Environments(settings, judge or StubJudge())  # type: ignore[arg-type]


def play(places: Environments, source: str, *messages: str, label: Label | None = None) -> Episode:
    episode = Episode(places, label or Label(source, "shown", None))
    episode.start()
    for message in messages:
        episode.step(message)
    episode.end()
    return episode


def test_an_episode_tells_its_outcome_and_its_environment_is_used_again(source: str) -> None:
    places = environments()
    good, bad = play(places, source, GOOD), play(places, source, BAD)
    assert (good.reward, bad.reward) == (1.0, 0.0)
    assert good.logs()["cef_correct"] == bad.logs()["cef_correctness_failure"] == 1.0
    assert tuple(good.logs()) == LOGS
    assert [len(envs) for envs in places._idle.values()] == [1]


def test_what_was_cut_before_its_end_ran_out_of_tokens_and_is_not_used_again(source: str) -> None:
    places = environments("tool_use")
    logs = play(places, source).logs()
    assert logs["cef_format_error"] == logs["cef_out_of_tokens"] == logs["cef_judged"] == 1.0
    assert not any(places._idle.values())


def test_rates_of_outcomes_leave_faults_out(source: str) -> None:
    places = environments()
    episodes = [
        play(places, source, GOOD),
        play(places, source, BAD),
        play(environments(judge=Broken()), source, GOOD),
    ]
    mean = {name: sum(episode.logs()[name] for episode in episodes) / 3 for name in LOGS}
    assert mean["cef_error"] == pytest.approx(1 / 3)
    rates = [mean[f"cef_{outcome}"] / mean["cef_judged"] for outcome in Outcome]
    assert rates == pytest.approx([0.5, 0.0, 0.5, 0.0])
    assert episodes[2].reward == 0.0
    assert episodes[2].fault == "InstrumentError: the box died"


def test_original_pass_rate_and_fix_rate_are_of_different_episodes(source: str) -> None:
    places = environments()
    first = Label(source, "shown", None, fixing=True)
    draft = play(places, source, BAD, label=first)
    assert draft.failure is not None
    assert draft.failure.program == "bad\n"
    episodes = [
        *(play(places, source, GOOD) for _ in range(3)),
        play(places, source, BAD),
        *(play(places, source, GOOD, label=draft.failure) for _ in range(2)),
        *(play(places, source, BAD, label=draft.failure) for _ in range(6)),
        play(places, source, GOOD, label=first),  # its first answer left nothing to repair
    ]
    total = {name: sum(episode.logs()[name] for episode in episodes) for name in LOGS}
    assert (total["cef_original_correct"], total["cef_original_judged"]) == (3, 4)
    assert (total["cef_repair_correct"], total["cef_repair_judged"]) == (2, 8)
    assert (total["cef_repair_asked"], total["cef_judged"], total["cef_correct"]) == (9, 13, 6)
    assert [len(envs) for envs in places._idle.values()] == [1, 1]  # one for problems, one for repairs


def test_only_a_program_that_was_judged_and_fails_can_be_repaired(source: str) -> None:
    places = environments()
    assert play(places, source, GOOD).failure is None
    assert play(places, source, "no program").failure is None
    assert play(environments(judge=Broken()), source, BAD).failure is None
    failure = play(places, source, BAD).failure
    assert failure is not None
    assert "This program failed" in places.first_shown(failure)


def test_repairs_are_judged_as_the_answers_that_failed() -> None:
    arguments = {"prompt": "plain", "exhaustive": True}
    told = {"environment": {"setting": "reasoning", "arguments": arguments}, "reward": {"kind": "continuous"}}
    settings = AgentSettings.model_validate(told)
    assert settings.repair.environment.setting == "repair"
    assert settings.repair.environment.arguments == {"exhaustive": True}
    assert (settings.repair.reward, settings.repair.judge) == (settings.reward, settings.judge)
    assert settings.repair.repair == settings.repair


def test_a_source_that_is_not_there_is_no_fault(source: str) -> None:
    episode = Episode(environments(), Label("jsonl:/nowhere.jsonl", "shown", None))
    with pytest.raises(UserError, match="nowhere"):
        episode.start()
    episode.end()


def test_only_faults_in_a_row_stop_training() -> None:
    faults = Faults()
    for _ in range(3):
        for _ in range(MOST_FAULTS - 1):
            faults.count("no box")
        faults.count(None)
    for _ in range(MOST_FAULTS - 1):
        faults.count("no box")
    with pytest.raises(InstrumentError, match="no box"):
        faults.count("no box")
