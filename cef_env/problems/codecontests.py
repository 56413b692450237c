"""CodeContests (deepmind/code_contests) and CodeContests+ (ByteDance-Seed/Code-Contests-Plus).

    codecontests:PATH           tests of three origins, limits, right and wrong programs in four languages
    codecontests+:PATH          generated tests, testlib checkers, limits, right and wrong submissions

Both come as Parquet; JSON lines of the same fields are read as well. Wrong programs are labelled as failing,
without saying how.
"""

from collections import Counter

from cef_env.problems.fields import Record, Skip, checker_for, require_readable
from cef_env.problems.index import Format, Parsed
from cef_env.problems.languages import CORRECT, INCORRECT, kept
from cef_env.problems.limits import DEFAULT_MEMORY_LIMIT_MB, DEFAULT_TIME_LIMIT_S, mebibytes, seconds
from cef_env.problems.types import CheckerProgram, Problem, Submission, TestCase

LANGUAGES = ("an unknown language", "python2", "cpp", "python3", "java")
"""CodeContests numbers them."""
DIFFICULTIES = ("unknown", "easy", "medium", "hard", "harder", "hardest", "external")
"""Likewise; the numbers after these are Codeforces' letters A, B, ..."""


def parse_codecontests(record: Record, number: int) -> Parsed:
    """One problem of CodeContests."""
    name, statement = record.text("name"), record.text("description")
    require_readable(statement)
    for field in ("input_file", "output_file"):
        if record.text(field, "").strip():
            raise Skip("reads or writes files instead of stdin and stdout")
    tests: list[TestCase] = []
    for field in ("public_tests", "private_tests", "generated_tests"):
        tests += _columns_of_tests(record, field)
    if not tests:
        raise Skip("no tests")
    notes: Counter[str] = Counter()
    submissions = _columns_of_programs(record, "solutions", CORRECT, notes)
    submissions += _columns_of_programs(record, "incorrect_solutions", INCORRECT, notes)
    problem = Problem(
        name,
        name,
        statement,
        tuple(tests),
        _duration(record) or DEFAULT_TIME_LIMIT_S,
        mebibytes(record, "memory_limit_bytes") or DEFAULT_MEMORY_LIMIT_MB,
        checker_for(statement),
        difficulty=_difficulty(record),
        tags=tuple(tag for tag in record.items("cf_tags", []) if isinstance(tag, str) and tag),
        source="codecontests",
        submissions=tuple(submissions),
    )
    return Parsed(problem, notes=dict(notes))


def _duration(record: Record) -> float | None:
    """Seconds and nanoseconds of a time limit, or a plain number."""
    if not isinstance(record.data.get("time_limit"), dict):
        return seconds(record, "time_limit")
    limit = record.inner("time_limit")
    return (limit.number("seconds") or 0) + (limit.number("nanos") or 0) / 1e9


def _difficulty(record: Record) -> str | None:
    if isinstance(record.data.get("difficulty"), str):
        return record.text("difficulty").lower() or None
    value = record.number("difficulty")
    if value is None:
        return None
    code = int(value)
    if 0 <= code < len(DIFFICULTIES):
        return DIFFICULTIES[code]
    letter = code - len(DIFFICULTIES)
    return chr(ord("a") + letter) if 0 <= letter < 26 else "unknown"


def _columns_of_tests(record: Record, field: str) -> list[TestCase]:
    """Tests as two lists of equal length, or as a list of pairs."""
    if isinstance(record.data.get(field), list):
        pairs = record.records(field)
        return [TestCase(t.text("input"), t.text("output"), field == "public_tests") for t in pairs]
    both = record.inner(field)
    inputs, outputs = both.items("input", []), both.items("output", [])
    if len(inputs) != len(outputs):
        raise record.error(field, f"has {len(inputs)} inputs and {len(outputs)} outputs")
    if not all(isinstance(text, str) for text in inputs + outputs):
        raise record.error(field, "must hold texts")
    return [TestCase(text, output, field == "public_tests") for text, output in zip(inputs, outputs)]


def _columns_of_programs(
    record: Record, field: str, expected: tuple[str, ...], notes: Counter[str]
) -> list[Submission]:
    both = record.inner(field)
    numbers, programs = both.items("language", []), both.items("solution", [])
    if len(numbers) != len(programs) or not all(isinstance(text, str) for text in programs):
        raise record.error(field, "must hold a language for each program")
    names = [LANGUAGES[n] if isinstance(n, int) and 0 <= n < len(LANGUAGES) else str(n) for n in numbers]
    return kept(zip(names, programs), field, expected, notes)


def parse_plus(record: Record, number: int) -> Parsed:
    """One problem of CodeContests+."""
    id_, statement = record.text("id"), record.text("description")
    require_readable(statement)
    tests = [TestCase(t.text("input"), t.text("output")) for t in record.records("test_cases", [])]
    if not tests:
        raise Skip("no tests")
    notes: Counter[str] = Counter()
    submissions = _plus_programs(record, "correct_submissions", CORRECT, notes)
    submissions += _plus_programs(record, "incorrect_submissions", INCORRECT, notes)
    program = _plus_checker(record)
    problem = Problem(
        id_,
        record.text("title", "") or id_,
        statement,
        tuple(tests),
        seconds(record, "time_limit") or DEFAULT_TIME_LIMIT_S,
        mebibytes(record, "memory_limit") or DEFAULT_MEMORY_LIMIT_MB,
        "" if program else checker_for(statement),
        tags=tuple(filter(None, [record.text("source", "").lower()])),
        source="codecontests+",
        submissions=tuple(submissions),
        checker_program=program,
    )
    return Parsed(problem, notes=dict(notes))


def _plus_programs(
    record: Record, field: str, expected: tuple[str, ...], notes: Counter[str]
) -> list[Submission]:
    pairs = ((item.text("language", ""), item.text("code")) for item in record.records(field, []))
    return kept(pairs, field, expected, notes)


def _plus_checker(record: Record) -> CheckerProgram | None:
    """The testlib checker of a problem, if it has one."""
    source = record.text("checker", "")
    if not source.strip():
        return None
    if "testlib.h" not in source:
        raise Skip("unknown checker")
    return CheckerProgram("testlib", source, "cpp17")


CODECONTESTS = Format("codecontests", 1, parse_codecontests)
CODECONTESTS_PLUS = Format("codecontests+", 1, parse_plus)
