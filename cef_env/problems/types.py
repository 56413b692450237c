"""What a problem is: a statement, limits, and tests whose lengths define the coverages.

Does not load or generate problems (see `cef_env.problems.sources`) and does not judge them.
"""

import hashlib
import keyword
import math
import unicodedata
from dataclasses import dataclass
from functools import cached_property

from cef_env.errors import UserError

MAX_TIME_LIMIT_S = 3600.0
MAX_MEMORY_LIMIT_MB = 1 << 20
CHECKER_STYLES = ("testlib", "icpc")
MAX_NAMES = 10_000
"""Characters of all arguments of a checker program, and of the name of a function."""
CHECKER_LANGUAGES = ("cpp17", "cpp20", "python")

Coverage = int | None
"""`k`: the tests with fewer than 10^k characters of input; `None`: all tests."""
MAX_COVERAGE = 18
"""No text has more characters than that."""


def parse_coverage(value: object) -> Coverage:
    """Coverage from what users write: an int >= 1, or `None`, `"inf"`, `math.inf` for all tests.

    Raises `UserError` for anything else.
    """
    if value is None or value == math.inf or (isinstance(value, str) and value.lower() == "inf"):
        return None
    if isinstance(value, str) and value.isdecimal() and len(value) <= 2:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COVERAGE:
        return value
    shown = value if isinstance(value, float | int) and abs(value) < 1e18 else str(value)[:20]
    raise UserError(
        f"coverage={shown!r}: use a whole number k >= 1, at most {MAX_COVERAGE} "
        "(tests under 10^k characters), or inf"
    )


@dataclass(frozen=True, slots=True)
class TestCase:
    """One test: what the program reads and what it should print."""

    __test__ = False  # pytest: this is not a test class

    input: str
    """Standard input of the program. U+DC80 to U+DCFF stand for the bytes 0x80 to 0xFF where the input is not
    UTF-8, as in Python's `surrogateescape`; other lone surrogates are refused."""
    output: str
    """Expected standard output; never enters a sandbox."""
    sample: bool = False
    """Whether the statement shows this test to the solver."""

    @property
    def length(self) -> int:
        """Number of characters of the input (DESIGN: test length)."""
        return len(self.input)


@dataclass(frozen=True, slots=True)
class CheckerProgram:
    """A program that decides whether an output is right, for problems with many right answers.

    It runs in a sandbox of its own; see `cef_env.judge.custom_checker` for what it is given.
    """

    style: str
    """`testlib` (Codeforces: input, output, answer; exit status 0 accepts) or `icpc` (42 accepts)."""
    source: str
    language: str = "cpp17"
    """`cpp17`, `cpp20` or `python`."""
    arguments: tuple[str, ...] = ()
    """Of the command line, after those of the style."""

    def __post_init__(self) -> None:
        for name, choices in (("style", CHECKER_STYLES), ("language", CHECKER_LANGUAGES)):
            if getattr(self, name) not in choices:
                raise UserError(f"checker program: {name}={getattr(self, name)!r}: use {', '.join(choices)}")
        if not isinstance(self.source, str) or not self.source.strip():
            raise UserError("checker program: field source must be the text of a program")
        object.__setattr__(self, "arguments", tuple(self.arguments))
        for argument in self.arguments:
            if not isinstance(argument, str) or "\0" in argument or not _is_text(argument):
                raise UserError(f"checker program: argument {argument!r} must be text without NUL")
        if sum(map(len, self.arguments)) > MAX_NAMES:
            raise UserError(f"checker program: arguments of more than {MAX_NAMES} characters; use fewer")


@dataclass(frozen=True, slots=True)
class Submission:
    """A program whose outcome is known: a reference solution, a natural bug, an archived submission."""

    kind: str
    """What it is, e.g. `efficient`, `brute_force`, `efficient_bug`."""
    program: str
    expected: tuple[str, ...] = ()
    """Outcomes (values of `cef_env.judge.Outcome`) that are right for it; empty when unknown."""
    language: str = "python"
    """A value of `cef_env.judge.Language`."""
    permitted: tuple[str, ...] = ()
    """Verdicts (values of `cef_env.judge.Verdict`) that its tests may have; empty when the source names none.
    Finer than `expected`, and decides where it is given."""
    required: tuple[str, ...] = ()
    """At least one test must have one of these verdicts."""


@dataclass(frozen=True)
class Problem:
    """A competitive-programming problem. Tests are kept in ascending length."""

    id: str
    """Unique within its source; stable across runs."""
    title: str
    statement: str
    """English text with input format, output format and constraints."""
    tests: tuple[TestCase, ...]
    time_limit_s: float = 1.0
    """CPU seconds per test."""
    memory_limit_mb: int = 256
    """MiB per test."""
    checker: str = ""
    """How outputs are compared: a spec of `cef_env.judge.checkers`. Left empty it becomes the style of the
    checker program if there is one, `json` for a function and `tokens` for any other problem."""
    difficulty: str | None = None
    tags: tuple[str, ...] = ()
    source: str | None = None
    starter_code: str | None = None
    submissions: tuple[Submission, ...] = ()
    """Programs with a known outcome that the source carries; never shown to a solver."""

    checker_program: CheckerProgram | None = None
    """Decides in place of a built-in checker."""
    function: str | None = None
    """Solutions are no programs that read and print, but a method of `class Solution` (or a function) of this
    name. A test's input holds one JSON value a line, an argument each; its output is one JSON value."""
    interactive: bool = False
    """Solutions talk with a program of the judge. Such problems can be kept but not yet judged."""

    def __post_init__(self) -> None:
        self._check_id()
        self._check_tests()
        self._check_limits()
        self._check_function()
        program = self.checker_program
        if program is not None and not isinstance(program, CheckerProgram):
            kind = type(program).__name__
            raise self._error(f"checker_program must be a CheckerProgram, not {kind}")
        if not isinstance(self.checker, str):
            raise self._error(f"checker={self.checker!r} must be the name of a checker")
        if program is not None and self.checker not in ("", program.style):
            raise self._error(f"checker={self.checker!r} and checker_program exclude each other; drop one")
        default = program.style if program else "json" if self.function is not None else "tokens"
        object.__setattr__(self, "checker", self.checker or default)
        object.__setattr__(self, "tests", tuple(sorted(self.tests, key=lambda test: test.length)))
        object.__setattr__(self, "tags", tuple(self.tags))

    def _error(self, message: str) -> UserError:
        return UserError(f"problem {self.id!r}: {message}")

    def _check_id(self) -> None:
        """Ids are printed, are part of file names and of command lines."""
        if not isinstance(self.id, str) or not self.id:
            raise UserError(f"problem id {self.id!r} must be text with at least one character")
        for character in self.id:
            if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
                raise self._error(f"the id holds {character!r}; use no control characters or line breaks")

    def _check_tests(self) -> None:
        if not isinstance(self.tests, tuple | list):
            raise self._error(f"field tests must be a tuple of TestCase, not {type(self.tests).__name__}")
        if not self.tests:
            raise self._error("field tests is empty; a problem needs at least one test")
        for position, test in enumerate(self.tests):
            if not isinstance(test, TestCase):
                raise self._error(f"tests[{position}] must be a TestCase, not {type(test).__name__}")
            for name, text in (("input", test.input), ("output", test.output)):
                if not isinstance(text, str):
                    kind = type(text).__name__
                    raise self._error(f"field tests[{position}].{name} must be text (str), not {kind}")
                if not _is_text(text):
                    raise self._error(
                        f"field tests[{position}].{name} holds a lone surrogate that no bytes stand for; "
                        "only U+DC80 to U+DCFF do"
                    )

    def _check_limits(self) -> None:
        seconds, mib = self.time_limit_s, self.memory_limit_mb
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not number or not 0 < seconds <= MAX_TIME_LIMIT_S:
            raise self._error(
                f"time_limit_s={seconds!r} must be positive seconds, up to {MAX_TIME_LIMIT_S:g}"
            )
        if not isinstance(mib, int) or isinstance(mib, bool) or not 0 < mib <= MAX_MEMORY_LIMIT_MB:
            raise self._error(f"memory_limit_mb={mib!r} must be a positive whole number of MiB, up to 1 TiB")

    def _check_function(self) -> None:
        name = self.function
        if name is None:
            return
        if (
            not isinstance(name, str)
            or not name.isidentifier()
            or keyword.iskeyword(name)
            or len(name) > MAX_NAMES
        ):
            raise self._error(f"function={name!r} must be the name of a method or function")
        if self.interactive:
            raise self._error("function and interactive exclude each other; drop one")

    def coverage(self, k: Coverage) -> tuple[TestCase, ...]:
        """The tests that coverage `k` asks for, in ascending length (possibly none)."""
        if k is None:
            return self.tests
        return tuple(test for test in self.tests if test.length < 10**k)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The k whose test subset is non-empty and differs from that of k - 1, ascending.

        The last level covers every test, so R of the last level equals R_inf.
        """
        return tuple(sorted({coverage_level(test.length) for test in self.tests}))

    @cached_property
    def longest_output(self) -> int:
        """Characters of the longest expected output."""
        return max(len(test.output) for test in self.tests)

    @cached_property
    def tests_hash(self) -> str:
        """SHA-256 over tests and what checks them: part of the key of every cached result."""
        checks = (self.checker, self.checker_program, self.function, self.interactive)
        digest = hashlib.sha256(repr(checks).encode())
        for test in self.tests:
            for text in (test.input, test.output):
                data = text.encode("utf-8", "surrogatepass")
                digest.update(b"%d:" % len(data))
                digest.update(data)
        return digest.hexdigest()


def coverage_level(length: int) -> int:
    """The smallest k >= 1 with `length` < 10^k."""
    return max(1, len(str(length))) if length > 0 else 1


def _is_text(text: str) -> bool:
    """Whether a program can be given this text: as UTF-8, where escaped surrogates are single bytes."""
    if not text.isascii():
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return False
    return True
