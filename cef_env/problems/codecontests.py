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
        tests += _tests(record, field)
    if not tests:
        raise Skip("no tests")
    notes: Counter[str] = Counter()
    submissions = _programs(record, "solutions", "solution", CORRECT, notes)
    submissions += _programs(record, "incorrect_solutions", "solution", INCORRECT, notes)
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


def _tests(record: Record, field: str) -> list[TestCase]:
    tests = []
    for given, expected in record.pairs(field, "input", "output"):
        if not isinstance(given, str):
            raise record.error(field, "must hold an input for each output")
        tests.append(TestCase(given, expected, field == "public_tests"))
    return tests


def _programs(
    record: Record, field: str, text: str, expected: tuple[str, ...], notes: Counter[str]
) -> list[Submission]:
    """The programs of a field, whose source is in `text`; languages are names or numbers."""
    named = []
    for language, program in record.pairs(field, "language", text):
        if isinstance(language, int) and 0 <= language < len(LANGUAGES):
            language = LANGUAGES[language]
        named.append((str(language or "an unnamed language"), program))
    return kept(named, field, expected, notes)


def parse_plus(record: Record, number: int) -> Parsed:
    """One problem of CodeContests+."""
    id_, statement = record.identifier("id"), record.text("description")
    require_readable(statement)
    tests = _tests(record, "test_cases")
    if not tests:
        raise Skip("no tests")
    notes: Counter[str] = Counter()
    submissions = _programs(record, "correct_submissions", "code", CORRECT, notes)
    submissions += _programs(record, "incorrect_submissions", "code", INCORRECT, notes)
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
