"""What people see of a judged program: the place where an output parts, and nothing a terminal obeys."""

import dataclasses
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cef_env.judge import Judge, JudgeResult
from cef_env.judge.difference import first_difference, first_line_difference, readable
from cef_env.judge.table import Witness, show, to_json
from cef_env.problems import Problem
from tests.judge.helpers import make_problem

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def rendered(problem: Problem, result: JudgeResult, witness: Witness, width: int = 110) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(show(problem, result, witness.difference))
    return console.file.getvalue()  # type: ignore[attr-defined]


def judged(judge: Judge, problem: Problem, program: str, width: int = 110, **options: object) -> str:
    witness = Witness(problem)
    result = judge.run(problem, program, watch=witness.watch, **options)  # type: ignore[arg-type]
    return rendered(problem, result, witness, width)


def test_the_first_difference_is_found_with_its_surroundings() -> None:
    found = first_difference(b"1 2\n3 4 5\n6 7 8 9", b"1 2\n3 4\n0 6 7 8 9")
    assert found is not None
    assert found.token == 5
    assert (found.printed.line, found.printed.before, found.printed.here) == (2, "1 2 3 4", "5")
    assert (found.expected.line, found.expected.here, found.expected.after) == (3, "0", "6 7 8 9")


@pytest.mark.parametrize(
    ("printed", "expected", "token", "here", "wanted"),
    [
        (b"", b"1", 1, None, "1"),
        (b"1 2 3", b"1 2", 3, "3", None),
        (b"1 2", b"1 2 3\n", 3, None, "3"),
        (b"\xff", b"x", 1, r"\xff", "x"),
        (b"\x1b[2J", b"x", 1, r"\x1b[2J", "x"),
        ("a\u202eb".encode(), b"x", 1, r"a\u202eb", "x"),
    ],
)
def test_differences(printed: bytes, expected: bytes, token: int, here: str | None, wanted: str) -> None:
    found = first_difference(printed, expected)
    assert found is not None
    assert (found.token, found.printed.here, found.expected.here) == (token, here, wanted)


def test_a_difference_deep_inside_a_long_token_is_shown() -> None:
    found = first_difference(b"7" * 500 + b"1" + b"7" * 500, b"7" * 1001)
    assert found is not None
    assert found.printed.here is not None
    assert "1" in found.printed.here
    assert found.printed.here.startswith("...")
    assert found.printed.here.endswith("...")
    assert len(found.printed.here) < 60


def test_same_tokens_in_other_lines() -> None:
    assert first_difference(b"1 2\n3", b"1\n2 3") is None
    found = first_line_difference(b"1 2\n3", b"1\n2 3")
    assert found is not None
    assert (found.token, found.printed.line, found.printed.here, found.expected.here) == (None, 1, "1 2", "1")
    assert first_line_difference(b"1 \n2\n\n", b"1\n2") is None


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_difference_is_found_exactly_when_the_tokens_differ(printed: bytes, expected: bytes) -> None:
    found = first_difference(printed, expected)
    assert (found is None) == (printed.split() == expected.split())
    if found is not None:
        ours, theirs = printed.split(), expected.split()
        assert found.token is not None
        assert ours[: found.token - 1] == theirs[: found.token - 1]
        for side in (found.printed, found.expected):
            assert not CONTROL.search(side.before + (side.here or "") + side.after)


@given(st.one_of(st.text(max_size=80), st.binary(max_size=80)))
def test_readable_text_holds_nothing_that_a_terminal_obeys(text: str | bytes) -> None:
    assert not CONTROL.search(readable(text))


def test_a_wrong_answer_shows_test_token_and_lines(judge: Judge) -> None:
    problem = make_problem(("1", "1"), ("22", "a b\nc d"))
    text = judged(judge, problem, "n = input()\nprint(1 if n == '1' else 'a b\\nc x')")
    assert "test 2: token 4 differs" in text
    assert re.search(r"printed +line 2 +a b c \[x\]", text)
    assert re.search(r"expected +line 2 +a b c \[d\]", text)
    assert "R_1=0  R_inf=0" in text
    assert "outcome correctness_failure" in text


def test_nothing_of_a_program_reaches_the_terminal_raw(judge: Judge) -> None:
    problem = make_problem(("1", "1"))
    for program in (
        r"print('\x1b[2J\x1b]0;owned\x07', '[bold red]')",
        r"raise ValueError('\x1b[2J [bold red]')",
    ):
        text = judged(judge, problem, program)
        assert not CONTROL.search(text)
        assert r"\x1b[2J" in text
    broken = dataclasses.replace(judge.run(problem, "1 +"), compile_error="error: \x1b[2J [red]")
    text = rendered(problem, broken, Witness(problem))
    assert not CONTROL.search(text)
    assert r"does not compile: error: \x1b[2J [red]" in text


def test_levels_percentages_and_what_was_not_run(judge: Judge) -> None:
    problem = make_problem(("1", "1"), ("2" * 20, "2"), ("3" * 300, "3"), time_limit_s=0.2)
    program = "n = len(input())\nwhile n > 9: pass\nprint(1)"
    text = judged(judge, problem, program)
    rows = [re.findall(r"[^\s│]+", line) for line in text.splitlines() if line.startswith("│")]
    assert [row[:4] for row in rows] == [["1", "1", "1", "accepted"], ["2", "20", "2", "time_limit"]]
    assert int(rows[1][5]) >= 100 > int(rows[0][5])
    assert "R_1=1  R_2=0  R_3=0  R_inf=0" in text
    assert "1 of the larger tests" in text
    assert "limits 0.2 s of CPU and 128 MiB, speed factor 1, sandbox" in text


def test_verdicts_are_whole_in_a_narrow_terminal(judge: Judge) -> None:
    assert "wrong_answer" in judged(judge, make_problem(("1", "1")), "print(2)", width=60)


def test_what_a_smaller_coverage_cannot_know_is_a_question_mark(judge: Judge) -> None:
    problem = make_problem(("1", "1"), ("2" * 20, "1"))
    assert "R_1=1  R_2=?  R_inf=?" in judged(judge, problem, "print(1)", coverage=1)


def test_json_holds_the_same(judge: Judge) -> None:
    problem = make_problem(("1", "1"), ("2" * 20, "2"))
    witness = Witness(problem)
    result = judge.run(problem, "print(1)", watch=witness.watch)
    data = json.loads(json.dumps(to_json(problem, result, witness.difference)))
    assert data["rewards"] == {"1": 1, "2": 0, "inf": 0}
    assert data["outcome"] == "correctness_failure"
    assert data["coverage_reached"] == 1
    assert [test["verdict"] for test in data["tests"]] == ["accepted", "wrong_answer"]
    assert data["first_difference"]["token"] == 1
    assert data["first_difference"]["printed"]["here"] == "1"


def test_a_watched_run_sees_every_test_and_is_never_answered_from_the_cache(tmp_path) -> None:
    problem = make_problem(("1", "1"), ("22", "22"))
    seen: list[bytes] = []
    with Judge(workers=1, cache=tmp_path / "c") as judge:
        for _ in range(2):
            seen.clear()
            result = judge.run(
                problem, "print(input())", watch=lambda test, execution, _: seen.append(execution.stdout)
            )
            assert seen == [b"1\n", b"22\n"]
            assert result.reward() == 1
