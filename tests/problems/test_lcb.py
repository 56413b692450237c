"""LiveCodeBench: both kinds of tests, both packings, windows and releases, and hostile or damaged records."""

import base64
import contextlib
import json
import pickle
import zlib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.problems import TestCase, lcb, load
from tests.problems.formats import lcb as record
from tests.problems.formats import lcb_functional, packed, stdin_tests, write_lines, write_parquet


def test_public_and_private_tests_in_both_packings(tmp_path: Path) -> None:
    plain = record("plain", private_test_cases=json.dumps(stdin_tests(4, 10**40)))
    problems = load(f"lcb:{write_lines(tmp_path / 'test.jsonl', [record('packed'), plain])}")
    packed_, plain_ = problems
    assert packed_.tests == plain_.tests
    assert packed_.tests[0] == TestCase("3\n", "6\n", sample=True)
    assert [test.length for test in packed_.tests] == [2, 2, 42]
    assert packed_.levels == (1, 2)
    assert (packed_.time_limit_s, packed_.checker, packed_.difficulty) == (6.0, "tokens", "hard")
    assert packed_.title == "Double"
    assert packed_.function is packed_.starter_code is None


def test_functional_problems_name_their_function(tmp_path: Path) -> None:
    (problem,) = load(f"lcb:{write_lines(tmp_path / 'test.jsonl', [lcb_functional()])}")
    assert (problem.function, problem.checker) == ("total", "json")
    assert (problem.starter_code or "").startswith("class Solution")
    assert problem.tests[-1] == TestCase('"ab"\n[1, 2]', "3", sample=True)


def test_a_functional_problem_is_judged(tmp_path: Path, judge: Any) -> None:
    (problem,) = load(f"lcb:{write_lines(tmp_path / 'test.jsonl', [lcb_functional()])}")
    program = (
        "class Solution:\n    def total(self, s: str, nums: List[int]) -> int:\n        return sum(nums)\n"
    )
    assert judge.run(problem, program).outcome == "correct"
    assert judge.run(problem, program.replace("sum(nums)", "len(s)")).outcome == "correctness_failure"


def test_the_error_that_a_statement_allows_becomes_the_checker(tmp_path: Path) -> None:
    text = "Print x. It is right if the absolute or relative error is at most $10^{-6}$ of the judge's x."
    (problem,) = load(f"lcb:{write_lines(tmp_path / 'a.jsonl', [record(question_content=text)])}")
    assert problem.checker == "floats?abs=1e-6&rel=1e-6"


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", ("a", "b", "c")),
        ("?difficulty=hard", ("a", "c")),
        ("?difficulty=HARD,easy", ("a", "b", "c")),
        ("?after=2024-08-15", ("a", "c")),
        ("?before=2024-08-15", ("a", "b")),
        ("?after=2024-08-16&difficulty=hard", ("c",)),
        ("?after=2023-01-01&before=2023-12-31", ("b",)),
        ("?after=2030-01-01", ()),
    ],
)
def test_windows_and_difficulties(tmp_path: Path, query: str, ids: tuple[str, ...]) -> None:
    b = record("b", contest_date="2023-06-01T00:00:00", difficulty="easy")
    c = record("c", contest_date="2025-01-01T12:30:00")
    path = write_lines(tmp_path / "test.jsonl", [record("a"), b, c])
    assert load(f"lcb:{path}{query}").ids == ids


@pytest.mark.parametrize(
    ("release", "ids"),
    [
        ("v1", ("p1",)),
        ("release_v2", ("p1", "p2")),
        ("v3", ("p1", "p2", "p3")),
        ("latest", ("p1", "p2", "p3")),
        ("v2_v3", ("p2", "p3")),
        ("v2_only", ("p2",)),
    ],
)
def test_releases_are_files_of_a_folder(tmp_path: Path, release: str, ids: tuple[str, ...]) -> None:
    for number, name in enumerate(("test.jsonl", "test2.jsonl", "test3.jsonl"), 1):
        write_lines(tmp_path / name, [record(f"p{number}")])
    assert load(f"lcb:{tmp_path}?release={release}").ids == ids


@pytest.mark.parametrize("release", ["v4", "v3_v2", "3", "", "v0", "release"])
def test_other_releases_are_refused(tmp_path: Path, release: str) -> None:
    write_lines(tmp_path / "test.jsonl", [record()])
    with pytest.raises(UserError, match="release="):
        load(f"lcb:{tmp_path}?release={release}")


def test_dates_may_be_a_column_of_times(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = write_parquet(tmp_path / "t.parquet", [record(contest_date=datetime(2024, 8, 15))])
    assert load(f"lcb:{path}?after=2024-08-15&before=2024-08-15").ids == ("abc1",)


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)


def _pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    ("private", "message"),
    [
        (_pack(pickle.dumps(_Evil())), "refused: it names builtins.print"),
        (_pack(pickle.dumps([{"input": "1"}])), "refused: it holds list, not str"),
        (_pack(pickle.dumps(b"[]")), "refused: it"),
        (_pack(b"cos\nsystem\n(S'true'\ntR."), r"refused: it names os\.system"),
        (_pack(b"\x80\x04P1\n."), "refused:"),
        (_pack(pickle.dumps("[]")[:-1]), "is not a pickled str"),
        (_pack(b""), "is not a pickled str"),
        (_pack(pickle.dumps("{not json")), "does not hold JSON"),
        (_pack(pickle.dumps("[" * 100_000)), r"does not hold JSON \(nested too deeply\)"),
        (base64.b64encode(b"not zlib").decode(), "is not zlib data"),
        (packed(stdin_tests(1))[:-8], "is cut off: its zlib data has no end"),
        ("!!!", "is neither JSON nor base64"),
        (packed(stdin_tests(1))[:-1], "is neither JSON nor base64"),
        ("[1", "is not JSON"),
        (7, "must be a list, not int"),
        (packed([{"input": "1"}]), r"private_test_cases\[0\]\.output is missing; there are input"),
        (json.dumps([3]), r"private_test_cases\[0\] must be an object, not int"),
        (json.dumps([{"input": 1, "output": "2"}]), r"private_test_cases\[0\]\.input must be text, not int"),
    ],
)
def test_bad_hidden_tests_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], private: Any, message: str
) -> None:
    path = write_lines(tmp_path / "test.jsonl", [record("a"), record("b", private_test_cases=private)])
    with pytest.raises(UserError, match=rf"test\.jsonl:2: .*{message}") as caught:
        load(f"lcb:{path}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    problems = load(f"lcb:{path}?skip_bad=yes")
    assert (problems.ids, problems.skipped) == (("a",), {"broken": 1})
    assert capsys.readouterr().out == ""


def test_a_zip_bomb_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lcb, "MAX_DECOMPRESSED_BYTES", 1 << 20)
    path = write_lines(tmp_path / "t.jsonl", [record(private_test_cases=_pack(b"a" * (50 << 20)))])
    with pytest.raises(UserError, match=r"t\.jsonl:1: field private_test_cases unpacks to more than 1 MiB"):
        load(f"lcb:{path}")


@given(st.text())
def test_a_pickled_str_is_read_in_every_protocol(text: str) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert lcb.unpickle_str(pickle.dumps(text, protocol)) == text


@given(st.binary(max_size=40))
def test_any_other_bytes_are_a_str_or_refused(data: bytes) -> None:
    with contextlib.suppress(pickle.UnpicklingError):
        assert type(lcb.unpickle_str(data)) is str


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question_id": None}, "field question_id must be text, not null"),
        ({"question_id": 5}, "field question_id must be text, not int"),
        ({"question_id": "a\x1b[2J"}, "the id holds"),
        ({"question_id": ""}, "must be text with at least one character"),
        ({"contest_date": "soon"}, "field contest_date must begin with a day"),
        ({"metadata": "{}", "public_test_cases": lcb_functional()["public_test_cases"],
          "private_test_cases": "[]"}, r"field metadata\.func_name is missing"),
        ({"public_test_cases": lcb_functional()["public_test_cases"]}, "has tests of type"),
        ({"public_test_cases": "{"}, "field public_test_cases is not JSON"),
    ],
)  # fmt: skip
def test_bad_fields_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write_lines(tmp_path / "t.jsonl", [record(**change)])
    with pytest.raises(UserError, match=rf"t\.jsonl:1: .*{message}") as caught:
        load(f"lcb:{path}")
    assert "\x1b" not in str(caught.value)


def test_what_is_left_out_by_design_is_counted(tmp_path: Path) -> None:
    records = [
        record("a"),
        record("b", question_content="This is an interactive problem. Guess the number."),
        record("c", question_content='<img src="x.png"> ![](https://example.org/a.png)'),
        record("d", public_test_cases="[]", private_test_cases="[]"),
    ]
    problems = load(f"lcb:{write_lines(tmp_path / 't.jsonl', records)}")
    assert problems.ids == ("a",)
    assert problems.skipped == {
        "interactive": 1,
        "statement is only an image, or empty": 1,
        "no tests": 1,
    }
