"""Labelled programs against the judge: agreement by verdict or outcome, and the margin of time limits."""

from dataclasses import replace
from pathlib import Path

import pytest

from cef_env.judge import Judge
from cef_env.judge.check_limits import Check, check
from cef_env.problems import Problem, Submission, TestCase, load
from tests.problems import formats

BUSY = "import time\nn = int(input())\nwhile time.process_time() < {0}: pass\nprint(2 * n)\n"


def problem(*submissions: Submission, limit: float = 0.5) -> Problem:
    tests = (TestCase("3\n", "6\n"), TestCase("123\n", "246\n"))
    return Problem("p", "P", formats.STATEMENT, tests, limit, submissions=submissions)


def run(judge: Judge, *problems: Problem) -> Check:
    return check(problems, judge, len(problems))


def test_packages_of_both_forms_are_as_labelled(tmp_path: Path, judge: Judge) -> None:
    formats.legacy_package(tmp_path / "a")
    formats.modern_package(tmp_path / "b")
    problems = load(f"icpc:{tmp_path}")
    result = check(problems, judge, len(problems))
    assert result.disagreements == []
    assert len(result.programs) == 11
    assert {(c.kind, c.language) for c in result.programs if c.problem_id == "a"} == {
        ("accepted", "python"),
        ("accepted", "cpp17"),
        ("wrong_answer", "python"),
        ("time_limit_exceeded", "python"),
        ("run_time_error", "cpp17"),
    }
    assert all(limit.trusted for limit in result.limits)
    assert result.confusion["correct", "correct"] == 4


def test_custom_validators_of_packages_decide(tmp_path: Path, judge: Judge) -> None:
    name = "output_validator/validate.py"
    package = formats.modern_package(tmp_path / "p", {name: formats.VALIDATOR_PY})
    assert run(judge, *load(f"icpc:{package}")).disagreements == []
    formats.tree(package, {name: "import sys\nsys.exit(42)\n"})
    result = run(judge, *load(f"icpc:{package}"))
    assert [c.kind for c in result.disagreements] == ["wrong_answer"]
    formats.tree(package, {name: "import sys\nsys.exit(3)\n"})
    result = run(judge, *load(f"icpc:{package}"))
    assert [c.got for c in result.programs if c.kind == "accepted"] == ["judge failed"] * 2
    assert all(limit.trusted is not True for limit in result.limits)


def test_testlib_checkers_of_codecontests_plus_decide(tmp_path: Path, judge: Judge) -> None:
    path = formats.write_lines(tmp_path / "d.jsonl", [formats.codecontests_plus()])
    result = run(judge, *load(f"codecontests+:{path}"))
    assert result.confusion == {
        ("correct", "correct"): 2,
        ("optimization_failure or correctness_failure", "correctness_failure"): 1,
    }
    assert result.disagreements == []


def test_wrong_labels_are_found(judge: Judge) -> None:
    result = run(
        judge,
        problem(
            Submission("a", formats.WRONG_PY, ("correct",)),
            Submission("b", formats.DOUBLE_PY, ("correctness_failure",)),
            Submission("c", formats.DOUBLE_PY, ("correct",)),
            Submission("d", formats.WRONG_PY),
            Submission("e", "int main( {}", ("correctness_failure",), "cpp17"),
        ),
    )
    assert [c.kind for c in result.disagreements] == ["a", "b"]
    assert [c.agrees for c in result.programs] == [False, False, True, None, True]
    assert result.confusion["unknown", "correctness_failure"] == 1


@pytest.mark.parametrize(
    ("program", "permitted", "required", "agrees"),
    [
        ("print(6)", ("accepted", "wrong_answer"), ("wrong_answer",), True),
        ("print(6)", ("accepted", "time_limit"), ("time_limit",), False),
        ("print(6)", ("accepted",), (), False),
        ("while True: pass", ("accepted", "time_limit"), ("time_limit",), True),  # a hang is still too slow
        (
            "n = int(input())\nwhile n > 5: pass\nprint(1)",
            ("wrong_answer", "time_limit"),
            ("time_limit",),
            True,
        ),
        ("print(2 * int(input()))", ("accepted", "wrong_answer"), ("wrong_answer",), False),
    ],
)
def test_verdicts_decide_where_a_source_names_them(
    judge: Judge, program: str, permitted: tuple[str, ...], required: tuple[str, ...], agrees: bool
) -> None:
    labelled = Submission("x", program, ("correctness_failure",), "python", permitted, required)
    (checked,) = run(judge, problem(labelled)).programs
    assert checked.agrees is agrees


@pytest.mark.parametrize(
    ("accepted", "late", "slowest", "times_out", "trusted"),
    [
        (0.05, 5.0, 0.05, True, True),
        (0.4, 5.0, 0.4, True, False),
        (0.05, 0.6, 0.05, False, False),
        (0.05, 0.1, 0.05, False, False),
        (0.05, None, 0.05, None, True),
        (None, 5.0, None, True, True),
        (None, None, None, None, None),
    ],
)
def test_the_margins_of_a_limit(
    judge: Judge,
    accepted: float | None,
    late: float | None,
    slowest: float | None,
    times_out: bool | None,
    trusted: bool | None,
) -> None:
    programs = [Submission("wrong_answer", "print(1)", ("correctness_failure",))]
    if accepted is not None:
        programs.append(Submission("accepted", BUSY.format(accepted), ("correct",)))
    if late is not None:
        slow = BUSY.format(f"{late} * (n > 5)")
        programs.append(Submission("time_limit_exceeded", slow, ("optimization_failure",)))
    (limit,) = run(judge, problem(*programs)).limits
    assert limit.times_out is times_out
    assert limit.trusted is trusted
    assert limit.slowest_accepted_s == (None if slowest is None else pytest.approx(slowest, abs=0.15))


def test_what_cannot_be_judged_does_not_stop_the_rest(judge: Judge) -> None:
    odd = replace(problem(Submission("a", "", ("correct",))), id="q", checker="telepathy")
    fine = problem(Submission("b", formats.DOUBLE_PY, ("correct",)))
    result = run(judge, odd, fine)
    assert [(c.got, c.agrees) for c in result.programs] == [("judge failed", None), ("correct", True)]
    assert "telepathy" in result.programs[0].detail


def test_problems_without_programs_and_interactive_ones_are_counted(judge: Judge) -> None:
    talk = replace(problem(Submission("a", "", ("correct",))), id="q", interactive=True)
    result = run(judge, problem(), talk)
    assert (result.without_programs, result.programs) == (2, [])
    assert result.to_json()["confusion"] == []
