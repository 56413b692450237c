"""JSONL files: exact round trip, atomic writing, and errors that name line and field."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.problems import CheckerProgram, Problem, Submission, TestCase, jsonl

any_text = st.text(st.characters(), max_size=20)
test_text = st.text(
    st.characters(exclude_categories=["Cs"]) | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)
)
ids = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=20)
checkers = st.none() | st.builds(
    CheckerProgram,
    st.sampled_from(["testlib", "icpc"]),
    any_text.filter(str.strip),
    st.sampled_from(["cpp17", "cpp20", "python"]),
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=2).map(
        tuple
    ),
)


def problem(id_: str = "p", **changes) -> Problem:
    fields = {"title": "t", "statement": "s", "tests": (TestCase("1\n", "2\n"),)} | changes
    return Problem(id=id_, **fields)


@given(
    id_=ids,
    text=any_text,
    tests=st.lists(st.builds(TestCase, test_text, test_text, st.booleans()), min_size=1, max_size=3),
    submissions=st.lists(
        st.builds(Submission, any_text, any_text, st.lists(any_text, max_size=2).map(tuple)), max_size=2
    ),
    seconds=st.floats(1e-6, 3600),
    nothing=st.none() | any_text,
    checker=checkers,
    interactive=st.booleans(),
)
def test_round_trip_is_exact(
    tmp_path_factory, id_, text, tests, submissions, seconds, nothing, checker, interactive
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.jsonl"
    original = problem(
        id_,
        statement=text + "\ud800\u2028\x00é漢",
        tests=tuple(tests),
        submissions=tuple(submissions),
        time_limit_s=seconds,
        difficulty=nothing,
        source=nothing,
        starter_code=nothing,
        tags=(text, "b"),
        checker_program=checker,
        interactive=interactive,
        function=None if interactive else "solve",
    )
    assert jsonl.write(path, [original, problem(id_ + "2")]) == 2
    read = jsonl.read(path)
    assert read.ids == (id_, id_ + "2")
    assert read[0] == original
    assert read[0].tests_hash == original.tests_hash


def test_reading_is_lazy_and_by_offset(tmp_path) -> None:
    path = tmp_path / "p.jsonl"
    jsonl.write(path, [problem(str(i), statement="é" * i) for i in range(50)])
    problems = jsonl.read(path)
    assert problems.get("49").statement == "é" * 49
    assert problems.smallest_level("3") == 1
    path.write_text(path.read_text().replace('"id": "7"', '"id": "x"'))
    with pytest.raises(UserError, match=r"p\.jsonl:8: the file changed"):
        problems.get("7")


def test_a_failed_write_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "p.jsonl"
    jsonl.write(path, [problem("old")])

    def broken():
        yield problem("new")
        raise RuntimeError("source failed")

    with pytest.raises(RuntimeError, match="source failed"):
        jsonl.write(path, broken())
    assert jsonl.read(path).ids == ("old",)
    assert os.listdir(tmp_path) == ["p.jsonl"]


def test_file_mode_follows_the_umask(tmp_path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    jsonl.write(tmp_path / "p.jsonl", [problem()])
    assert (tmp_path / "p.jsonl").stat().st_mode == plain.stat().st_mode


GOOD = {"id": "p", "title": "t", "statement": "s", "tests": [{"input": "1", "output": "2"}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": 3}, "field id must be str, not int"),
        ({"time_limit_s": True}, "field time_limit_s must be int or float, not bool"),
        ({"time_limit_s": float("nan")}, "time_limit_s=nan must be positive"),
        ({"memory_limit_mb": 1.5}, "field memory_limit_mb must be int, not float"),
        ({"difficulty": 1}, "field difficulty must be str or null, not int"),
        ({"tests": []}, "field tests is empty"),
        ({"tests": [{"input": "1"}]}, r"field tests\[0\]\.output is missing"),
        ({"tests": ["x"]}, r"tests\[0\] must be a JSON object"),
        ({"tests": [{"input": "1", "output": 2}]}, r"field tests\[0\]\.output must be str"),
        ({"tests": [{"input": "\ud800", "output": ""}]}, r"tests\[0\]\.input holds a lone surrogate"),
        ({"id": "a\nb"}, r"the id holds '\\n'"),
        ({"id": ""}, "must be text with at least one character"),
        ({"time_limit_s": 1e308}, r"time_limit_s=1e\+308 must be positive seconds, up to 3600"),
        ({"memory_limit_mb": 10**9}, "memory_limit_mb=1000000000 must be"),
        ({"checker": None}, "field checker must be str, not NoneType"),
        ({"checker_program": "x"}, "field checker_program must be dict or null, not str"),
        ({"checker_program": {"style": "testlib"}}, r"field checker_program\.source is missing"),
        ({"checker_program": {"style": "a", "source": "x"}}, "style='a': use testlib, icpc"),
        (
            {"checker_program": {"style": "icpc", "source": "x", "language": "java"}},
            "language='java': use cpp17",
        ),
        (
            {"checker_program": {"style": "icpc", "source": "x", "arguments": [1]}},
            r"field checker_program\.arguments",
        ),
        (
            {"checker_program": {"style": "icpc", "source": "x", "flags": []}},
            r"unknown field checker_program\.flags",
        ),
        ({"checker_program": {"style": "icpc", "source": "x"}, "checker": "lines"}, "exclude each other"),
        ({"function": 1}, "field function must be str or null, not int"),
        ({"function": "a b"}, "function='a b' must be the name"),
        ({"interactive": 1}, "field interactive must be bool, not int"),
        ({"tags": [1]}, "field tags must be a list of strings"),
        ({"submissions": [{"kind": "a"}]}, r"field submissions\[0\]\.program is missing"),
        ({"submissions": [{"kind": "a", "program": "", "expected": [1]}]}, r"submissions\[0\]\.expected"),
        ({"extra": 1}, "unknown field extra; known: id, title"),
    ],
)
def test_a_bad_line_is_named(tmp_path, change, message: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(GOOD | {"id": "a"}) + "\n\n" + json.dumps(GOOD | change) + "\n")
    with pytest.raises(UserError, match=rf"p\.jsonl:3: .*{message}"):
        jsonl.read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r":1: not JSON"),
        ("[" * 100_000, r":1: not a problem: JSON nested too deeply"),
        ('{"id": ' + "1" * 5000 + "}", r":1: not JSON \(Exceeds the limit \(4300 digits\)[^;]*\)$"),
        ("[]", r":1: the line must be a JSON object"),
        ("\xff", r":1: not JSON"),
        (json.dumps(GOOD) + "\n" + json.dumps(GOOD), r":2: field id: 'p' occurs more than once"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "title"}), r":1: field title is missing"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=message):
        jsonl.read(path)


def test_no_such_file_or_folder(tmp_path) -> None:
    with pytest.raises(UserError, match="No such file"):
        jsonl.read(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match="does not exist; create it"):
        jsonl.write(tmp_path / "none" / "p.jsonl", [problem()])
