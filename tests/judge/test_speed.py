"""The speed factor: measured, checked, applied to time limits, and part of what a result depends on."""

import math
from pathlib import Path

import pytest

from cef_env.errors import JudgeError, UserError
from cef_env.judge import Judge, JudgeResult, Verdict, speed
from cef_env.judge.speed import REFERENCE_S, Speed, machine_speed, speed_factor
from tests.judge.helpers import make_problem

PROBLEM = make_problem(("1", "1"), time_limit_s=0.2)
BURN = "import time\nwhile time.process_time() < 0.4: pass\nprint(1)"


@pytest.fixture(autouse=True)
def _no_factor_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEF_SPEED_FACTOR", raising=False)


@pytest.mark.parametrize("value", [0, 0.0, -1, math.nan, math.inf, -math.inf, True, False, "fast", "", "nan"])
def test_what_cannot_multiply_a_limit_is_refused(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"speed_factor=.*positive number") as caught:
        speed_factor(value)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("CEF_SPEED_FACTOR", str(value))
    with pytest.raises(UserError, match="CEF_SPEED_FACTOR="):
        speed_factor()


def test_a_bad_factor_is_refused_before_anything_starts() -> None:
    with pytest.raises(UserError, match="speed_factor=-1"):
        Judge(speed_factor=-1)


def test_the_variable_is_the_default_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert speed_factor() == 1.0
    monkeypatch.setenv("CEF_SPEED_FACTOR", "1.5")
    assert speed_factor() == 1.5
    assert speed_factor(1) == 1.0
    with Judge(workers=1) as judge:
        assert judge.speed_factor == 1.5


def test_the_factor_multiplies_time_limits_and_is_recorded() -> None:
    # 0.4 s of CPU against 0.2 and 2 s: no load turns one into the other.
    with Judge(workers=1) as judge:
        strict = judge.run(PROBLEM, BURN)
    with Judge(workers=1, speed_factor=10) as judge:
        lenient = judge.run(PROBLEM, BURN)
    assert (strict.tests[0].verdict, strict.speed_factor) == (Verdict.TIME_LIMIT, 1.0)
    assert (lenient.tests[0].verdict, lenient.speed_factor) == (Verdict.ACCEPTED, 10.0)
    assert JudgeResult.from_json(lenient.to_json()) == lenient


def test_results_of_different_factors_never_mix(tmp_path: Path) -> None:
    cache = tmp_path / "results.sqlite"
    for factor, verdict in ((10, Verdict.ACCEPTED), (1, Verdict.TIME_LIMIT), (10, Verdict.ACCEPTED)):
        with Judge(workers=1, cache=cache, speed_factor=factor) as judge:
            result = judge.run(PROBLEM, BURN)
        assert (result.tests[0].verdict, result.speed_factor) == (verdict, factor)


def test_a_result_stored_before_there_was_a_factor_is_read() -> None:
    with Judge(workers=1) as judge:
        data = judge.run(PROBLEM, "print(1)").to_json()
    del data["speed_factor"]
    assert JudgeResult.from_json(data).speed_factor == 1.0


def test_measuring_this_machine(judge: Judge) -> None:
    steps: list[tuple[int, int]] = []
    measured = machine_speed(judge, 3, lambda done, total: steps.append((done, total)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert len(measured.seconds) == 3
    assert all(seconds > 0.01 for seconds in measured.seconds)
    assert measured.factor == sorted(measured.seconds)[1] / REFERENCE_S


def test_the_median_forgives_one_disturbed_run() -> None:
    measured = Speed((2 * REFERENCE_S, 2 * REFERENCE_S, 9 * REFERENCE_S))
    assert measured.factor == 2.0
    assert measured.spread == 4.5


def test_a_program_that_computes_something_else_measures_nothing(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "PROGRAM", "print(1)")
    with pytest.raises(JudgeError, match="not accepted"):
        machine_speed(judge, 1)
