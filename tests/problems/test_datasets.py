"""CodeContests(+), TACO and APPS: fields, units, languages, skips and the mistakes that are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from cef_env.errors import UserError
from cef_env.problems import Problem, TestCase, load
from tests.problems.formats import (
    CHECKER,
    DOUBLE_CPP,
    DOUBLE_PY,
    WRONG_PY,
    apps,
    codecontests,
    codecontests_plus,
    taco,
    write_lines,
    write_parquet,
)


def one(kind: str, folder: Path, record: dict[str, Any]) -> Problem:
    (problem,) = load(f"{kind}:{write_lines(folder / 'd.jsonl', [record])}")
    return problem


def test_codecontests_plus(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = [
        codecontests_plus("1_A"),
        codecontests_plus("1_B", checker=None),
        codecontests_plus("1_C", test_cases=[]),
    ]
    problems = load(f"codecontests+:{write_parquet(tmp_path / 'd.parquet', rows)}")
    assert problems.ids == ("1_A", "1_B")
    assert problems.skipped == {"submissions in java": 2, "no tests": 1}
    problem = problems[0]
    assert problem.checker_program is not None
    assert (problem.checker_program.style, problem.checker_program.source) == ("testlib", CHECKER)
    assert (problem.time_limit_s, problem.memory_limit_mb, problem.checker) == (1.0, 256, "testlib")
    assert problems[1].checker == "tokens"
    labels = [(s.language, s.expected, s.program) for s in problem.submissions]
    failing = ("optimization_failure", "correctness_failure")
    assert labels == [
        ("python", ("correct",), DOUBLE_PY),
        ("cpp17", ("correct",), DOUBLE_CPP),
        ("python", failing, WRONG_PY),
    ]


def test_codecontests(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = [codecontests("a"), codecontests("b", input_file="in.txt"), codecontests("c", time_limit=None)]
    problems = load(f"codecontests:{write_parquet(tmp_path / 'd.parquet', rows)}")
    assert problems.ids == ("a", "c")
    assert problems.skipped["reads or writes files instead of stdin and stdout"] == 1
    assert problems.skipped["submissions in python2"] == 2
    problem = problems[0]
    assert (problem.time_limit_s, problem.memory_limit_mb, problem.difficulty) == (1.5, 512, "b")
    assert problems[1].time_limit_s == 2.0
    assert problem.tests[0] == TestCase("3\n", "6\n", sample=True)
    assert problem.tags == ("math",)
    assert [s.language for s in problem.submissions] == ["cpp17", "python", "python"]


def test_apps(tmp_path: Path) -> None:
    problem = one("apps", tmp_path, apps())
    assert problem.id == "7"
    assert problem.tests == (TestCase("3\n", "6\n"), TestCase("4\n", "8\n"))
    assert (problem.difficulty, problem.submissions[0].program) == ("introductory", DOUBLE_PY)


def test_taco(tmp_path: Path) -> None:
    problem = one("taco", tmp_path, taco(name="Double"))
    assert (problem.id, problem.title, problem.difficulty) == ("d-1", "Double", "very_hard")
    assert (problem.time_limit_s, problem.memory_limit_mb) == (2.0, 512)
    assert one("taco", tmp_path, taco(time_limit=None, memory_limit="None")).time_limit_s == 4.0


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [([[3], [0]], ("3", "0")), ([[3], [0, 1]], ("[3]", "[0, 1]")), ([3, 0], ("3", "0"))],
)
def test_functions_of_apps_and_taco(tmp_path: Path, outputs: Any, expected: tuple[str, ...]) -> None:
    tests = {"fn_name": "total", "inputs": [["ab", [1, 2]], ["", []]], "outputs": outputs}
    problem = one("taco", tmp_path, taco(input_output=json.dumps(tests)))
    assert (problem.function, problem.checker) == ("total", "json")
    assert problem.tests == (TestCase('""\n[]\n', expected[1]), TestCase('"ab"\n[1, 2]\n', expected[0]))


def test_tests_and_programs_may_be_objects_of_lists_and_ids_numbers(tmp_path: Path) -> None:
    tests = {"input": ["4\n"], "output": ["8\n"]}
    programs = {"language": ["py3"], "code": [DOUBLE_PY]}
    record = codecontests_plus() | {"id": 7, "test_cases": tests, "correct_submissions": programs}
    problem = one("codecontests+", tmp_path, record)
    assert (problem.id, problem.tests) == ("7", (TestCase("4\n", "8\n"),))
    assert problem.submissions[0].program == DOUBLE_PY


def test_integers_of_ten_thousand_digits(tmp_path: Path) -> None:
    digits = "7" * 10_000
    text = f'{{"fn_name": "f", "inputs": [[{digits}]], "outputs": [{digits}]}}'
    assert one("apps", tmp_path, apps(input_output=text)).tests == (TestCase(f"{digits}\n", digits),)


def test_ids_of_taco_tell_splits_apart(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        write_lines(tmp_path / split / "data.jsonl", [taco(date="2019-04-27T00:00:00")])
    assert load(f"taco:{tmp_path}?before=2020-01-01").ids == ("test/data-1", "train/data-1")
    assert load(f"taco:{tmp_path}?split=train").ids == ("train/data-1",)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1, 1),
        (2.5, 2.5),
        (1000, 1),
        (1500, 1.5),
        ("2.0 seconds", 2),
        ("500 ms", 0.5),
        ("3", 3),
        (0, 2),
        (None, 2),
    ],
)
def test_time_limits(tmp_path: Path, value: object, seconds: float) -> None:
    assert one("codecontests+", tmp_path, codecontests_plus(time_limit=value)).time_limit_s == seconds


@pytest.mark.parametrize(
    ("value", "mib"),
    [
        (256, 256),
        (262144, 256),
        (268435456, 256),
        ("256.0 megabytes", 256),
        ("1 GB", 1024),
        ("", 256),
        (None, 256),
    ],
)
def test_memory_limits(tmp_path: Path, value: object, mib: int) -> None:
    assert one("codecontests+", tmp_path, codecontests_plus(memory_limit=value)).memory_limit_mb == mib


@pytest.mark.parametrize(
    ("kind", "record", "message"),
    [
        ("codecontests+", codecontests_plus(time_limit="soon"), "field time_limit must be a time such as"),
        ("codecontests+", codecontests_plus(time_limit=-1), "time_limit_s=-1.0 must be positive"),
        ("codecontests+", codecontests_plus(time_limit=10**400), "field time_limit must be a finite number"),
        ("codecontests+", codecontests_plus(memory_limit=True), "field memory_limit must be a number"),
        ("codecontests+", codecontests_plus(memory_limit=10**60), "memory_limit_mb=.* must be"),
        ("codecontests+", codecontests_plus(test_cases="x"), "field test_cases must be an object, not str"),
        ("codecontests+", codecontests_plus(test_cases=[{"input": "1"}]), r"test_cases\[0\]\.output is"),
        ("codecontests+", codecontests_plus(correct_submissions=[{"language": "py3"}]),
         r"field correct_submissions\[0\]\.code is missing"),
        ("codecontests", codecontests(public_tests={"input": ["1"]}), "1 x input and 0 x output"),
        ("codecontests", codecontests(solutions={"language": [1], "solution": []}), "1 x language and 0 x"),
        ("codecontests", codecontests(private_tests=3), "private_tests must be an object, not int"),
        ("apps", apps(input_output="{"), "field input_output is not JSON"),
        ("apps", apps(input_output='{"inputs": ["1"], "outputs": []}'), "1 inputs and 0 outputs"),
        ("apps", apps(input_output='{"inputs": [{}], "outputs": [""]}'), "must hold texts or lists of lines"),
        ("apps", apps(input_output='{"fn_name": "f", "inputs": ["1"], "outputs": [1]}'), "must hold lists"),
        ("apps", apps(solutions="7"), "field solutions must be a list of programs"),
        ("apps", apps(problem_id=None), "field problem_id must be text, not null"),
        ("taco", taco(question=None), "field question must be text, not null"),
        ("taco", taco(input_output='{"fn_name": "a b", "inputs": [[1]], "outputs": [1]}'), "function="),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, kind: str, record: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=rf"d\.jsonl:1: .*{message}") as caught:
        one(kind, tmp_path, record)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "record", "reason"),
    [
        ("codecontests+", codecontests_plus(checker="int main() {}"), "unknown checker"),
        (
            "codecontests+",
            codecontests_plus(description="![](a.png)"),
            "statement is only an image, or empty",
        ),
        ("codecontests", codecontests(description="This is an interactive problem: ask."), "interactive"),
        ("apps", apps(input_output=""), "no tests"),
        ("apps", apps(input_output='{"inputs": [], "outputs": []}'), "no tests"),
    ],
)
def test_what_is_left_out(tmp_path: Path, kind: str, record: dict[str, Any], reason: str) -> None:
    problems = load(f"{kind}:{write_lines(tmp_path / 'd.jsonl', [record])}")
    assert len(problems) == 0
    assert problems.skipped == {reason: 1}


def test_thousands_of_programs_are_cut(tmp_path: Path) -> None:
    many = [{"language": "py3", "code": f"print({n})"} for n in range(50)]
    problems = load(
        f"codecontests+:{write_lines(tmp_path / 'd.jsonl', [codecontests_plus(incorrect_submissions=many)])}"
    )
    assert len(problems[0].submissions) == 22
    assert problems.skipped["submissions beyond the first 20 of a kind"] == 30
