"""Problems, coverages and problem sets."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.problems import CheckerProgram, Problem, ProblemSet, TestCase, parse_coverage
from cef_env.problems.types import coverage_level


def problem(*lengths: int, **fields: object) -> Problem:
    tests = tuple(TestCase("x" * length, str(length)) for length in lengths)
    return Problem(**{"id": "p", "title": "P", "statement": "S", "tests": tests, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "meant"), [(3, 3), ("3", 3), (None, None), ("inf", None), ("INF", None), (math.inf, None)]
)
def test_coverage_is_read_from_what_users_write(written: object, meant: int | None) -> None:
    assert parse_coverage(written) == meant


@pytest.mark.parametrize("written", [0, -1, 2.5, "", "three", True, "-1", math.nan, [3]])
def test_other_coverages_are_refused(written: object) -> None:
    with pytest.raises(UserError, match="coverage="):
        parse_coverage(written)


@given(st.integers(0, 10**9))
def test_level_is_the_smallest_coverage_that_holds_a_length(length: int) -> None:
    k = coverage_level(length)
    assert k >= 1
    assert length < 10**k
    assert k == 1 or length >= 10 ** (k - 1)


@given(st.lists(st.integers(0, 12_000), min_size=1, max_size=6))
def test_coverages_are_nested_sorted_and_levels_are_where_they_grow(lengths: list[int]) -> None:
    p = problem(*lengths)
    assert [test.length for test in p.tests] == sorted(lengths)
    for k in range(1, 7):
        smaller, larger = p.coverage(k), p.coverage(k + 1)
        assert larger[: len(smaller)] == smaller
        assert all(test.length < 10**k for test in smaller)
        grew = len(smaller) > (len(p.coverage(k - 1)) if k > 1 else 0)
        assert (k in p.levels) == grew
    assert p.coverage(None) == p.tests == p.coverage(p.levels[-1])


def test_length_counts_characters_not_bytes() -> None:
    assert TestCase("ä\n", "").length == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tests": ()}, "at least one test"),
        ({"time_limit_s": 0}, "time_limit_s=0"),
        ({"time_limit_s": math.nan}, "time_limit_s=nan"),
        ({"time_limit_s": math.inf}, "time_limit_s=inf"),
        ({"memory_limit_mb": 0}, "memory_limit_mb=0"),
        ({"memory_limit_mb": -5}, "memory_limit_mb=-5"),
        ({"memory_limit_mb": 256.0}, r"memory_limit_mb=256\.0 must be a positive whole number"),
        ({"memory_limit_mb": True}, "memory_limit_mb=True"),
        ({"memory_limit_mb": (1 << 20) + 1}, "up to 1 TiB"),
        ({"time_limit_s": True}, "time_limit_s=True"),
        ({"time_limit_s": "1"}, "time_limit_s='1'"),
        ({"time_limit_s": None}, "time_limit_s=None"),
        ({"time_limit_s": 1e308}, "up to 3600"),
        ({"time_limit_s": 10**400}, "up to 3600"),
        ({"id": ""}, "problem id '' must be text"),
        ({"id": 7}, "problem id 7 must be text"),
        ({"id": "a\x1b[31m"}, r"the id holds '\\x1b'"),
        ({"id": "a\ud800"}, r"the id holds '\\ud800'"),
        ({"id": "a\u2028"}, "the id holds"),
        ({"tests": None}, "field tests must be a tuple of TestCase, not NoneType"),
        ({"tests": [("1", "2")]}, r"problem 'p': tests\[0\] must be a TestCase, not tuple"),
        (
            {"tests": [TestCase("", ""), TestCase(b"1", "")]},
            r"'p': field tests\[1\]\.input must be text \(str\), not bytes",
        ),
        (
            {"tests": [TestCase("", None)]},
            r"'p': field tests\[0\]\.output must be text \(str\), not NoneType",
        ),
        ({"tests": [TestCase("", 3)]}, r"tests\[0\]\.output must be text \(str\), not int"),
        ({"tests": [TestCase("\ud800", "")]}, r"tests\[0\]\.input holds a lone surrogate"),
        ({"tests": [TestCase("", "é\udc7f")]}, r"tests\[0\]\.output holds a lone surrogate"),
        ({"checker": None}, "checker=None must be the name"),
        ({"function": "a.b"}, r"function='a\.b' must be the name"),
        ({"function": "class"}, "function='class' must be the name"),
        ({"function": "f", "interactive": True}, "exclude each other"),
        ({"checker_program": "x"}, "checker_program must be a CheckerProgram, not str"),
        (
            {"checker_program": CheckerProgram("icpc", "x"), "checker": "testlib"},
            "exclude each other; drop one",
        ),
    ],
)
def test_impossible_problems_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        problem(3, **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"style": "kattis"}, "style='kattis': use testlib, icpc"),
        ({"language": "java"}, "language='java': use cpp17, cpp20, python"),
        ({"source": " "}, "field source must be"),
        ({"source": b"x"}, "field source must be"),
        ({"arguments": ("a\0",)}, "must be text without NUL"),
        ({"arguments": (1,)}, "must be text without NUL"),
    ],
)
def test_impossible_checker_programs_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CheckerProgram(**{"style": "icpc", "source": "x", **fields})  # type: ignore[arg-type]


def test_the_default_checker_follows_the_kind_of_problem() -> None:
    assert problem(3).checker == "tokens"
    assert problem(3, function="solve").checker == "json"
    assert problem(3, function="solve", checker="json?abs=1").checker == "json?abs=1"
    assert problem(3, checker_program=CheckerProgram("icpc", "x")).checker == "icpc"
    assert problem(3, checker_program=CheckerProgram("icpc", "x"), checker="icpc").checker == "icpc"


def test_tests_may_hold_any_bytes() -> None:
    text = bytes(range(256)).decode("utf-8", "surrogateescape")
    assert Problem("p", "P", "S", [TestCase(text, text)]).tests[0].length == 256  # type: ignore[arg-type]


def test_tests_hash_depends_on_tests_and_what_checks_them_only() -> None:
    base = problem(3, 5)
    assert base.tests_hash == problem(5, 3, title="other", time_limit_s=9).tests_hash
    assert base.tests_hash != problem(3, 6).tests_hash
    assert base.tests_hash != problem(3, 5, checker="lines").tests_hash
    assert (
        base.tests_hash != problem(3, 5, checker="json").tests_hash != problem(3, 5, function="f").tests_hash
    )
    programs = [
        CheckerProgram("icpc", source, "python", args) for source in ("a", "\ud800") for args in ((), ("b",))
    ]
    assert len({problem(3, 5, checker_program=program).tests_hash for program in programs}) == 4
    joined = Problem("p", "P", "S", (TestCase("ab", "c"),))
    assert joined.tests_hash != Problem("p", "P", "S", (TestCase("a", "bc"),)).tests_hash
    assert Problem("p", "P", "S", (TestCase("\udc80", ""),)).tests_hash


def test_problem_set_fetches_lazily_once_and_by_id() -> None:
    fetched: list[str] = []

    def fetch(id_: str) -> Problem:
        fetched.append(id_)
        return problem(3, id=id_)

    problems = ProblemSet("src", ["a", "b", "c"], fetch)
    assert (len(problems), fetched) == (3, [])
    assert problems[1].id == problems.get("b").id == problems[-2].id == "b"
    assert fetched == ["b"]
    assert [p.id for p in problems[1:]] == ["b", "c"]
    assert problems.smallest_level("b") == 1
    with pytest.raises(UserError, match="'src' has no problem 'z'"):
        problems.get("z")


def test_problem_set_of_a_list_and_duplicate_ids() -> None:
    assert ProblemSet.of([problem(3)]).get("p").title == "P"
    with pytest.raises(UserError, match="'p' occurs more than once"):
        ProblemSet.of([problem(3), problem(4)])
