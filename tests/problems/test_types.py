"""Problems, coverages and problem sets."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.problems import Problem, ProblemSet, TestCase, parse_coverage
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
    ],
)
def test_impossible_problems_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        problem(3, **fields)


def test_tests_hash_depends_on_tests_and_checker_only() -> None:
    base = problem(3, 5)
    assert base.tests_hash == problem(5, 3, title="other", time_limit_s=9).tests_hash
    assert base.tests_hash != problem(3, 6).tests_hash
    assert base.tests_hash != problem(3, 5, checker="lines").tests_hash
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
