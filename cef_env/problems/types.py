"""What a problem is: a statement, limits, and tests whose lengths define the coverages.

Does not load or generate problems (see `cef_env.problems.sources`) and does not judge them.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

from cef_env.errors import UserError

Coverage = int | None
"""`k`: the tests with fewer than 10^k characters of input; `None`: all tests."""


def parse_coverage(value: object) -> Coverage:
    """Coverage from what users write: an int >= 1, or `None`, `"inf"`, `math.inf` for all tests.

    Raises `UserError` for anything else.
    """
    if value is None or value == math.inf or (isinstance(value, str) and value.lower() == "inf"):
        return None
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise UserError(f"coverage={value!r}: use a whole number k >= 1 (tests under 10^k characters) or inf")


@dataclass(frozen=True, slots=True)
class TestCase:
    """One test: what the program reads and what it should print."""

    __test__ = False  # pytest: this is not a test class

    input: str
    """Standard input of the program."""
    output: str
    """Expected standard output; never enters a sandbox."""
    sample: bool = False
    """Whether the statement shows this test to the solver."""

    @property
    def length(self) -> int:
        """Number of characters of the input (DESIGN: test length)."""
        return len(self.input)


@dataclass(frozen=True, slots=True)
class Submission:
    """A program whose outcome is known: a reference solution, a natural bug, an archived submission."""

    kind: str
    """What it is, e.g. `efficient`, `brute_force`, `efficient_bug`."""
    program: str
    expected: tuple[str, ...] = ()
    """Outcomes (values of `cef_env.judge.Outcome`) that are right for it; empty when unknown."""


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
    checker: str = "tokens"
    """How outputs are compared; the names are those of `cef_env.judge.checkers`."""
    difficulty: str | None = None
    tags: tuple[str, ...] = ()
    source: str | None = None
    starter_code: str | None = None
    submissions: tuple[Submission, ...] = ()
    """Programs with a known outcome that the source carries; never shown to a solver."""

    def __post_init__(self) -> None:
        if not self.tests:
            raise UserError(f"problem {self.id!r}: field tests is empty; a problem needs at least one test")
        if not self.time_limit_s > 0 or not math.isfinite(self.time_limit_s):
            raise UserError(
                f"problem {self.id!r}: time_limit_s={self.time_limit_s!r} must be positive seconds"
            )
        if self.memory_limit_mb <= 0:
            raise UserError(f"problem {self.id!r}: memory_limit_mb={self.memory_limit_mb!r} must be positive")
        object.__setattr__(self, "tests", tuple(sorted(self.tests, key=lambda test: test.length)))
        object.__setattr__(self, "tags", tuple(self.tags))

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
    def tests_hash(self) -> str:
        """SHA-256 over tests and checker: part of the key of every cached result."""
        digest = hashlib.sha256(self.checker.encode())
        for test in self.tests:
            for text in (test.input, test.output):
                data = text.encode("utf-8", "surrogatepass")
                digest.update(b"%d:" % len(data))
                digest.update(data)
        return digest.hexdigest()


def coverage_level(length: int) -> int:
    """The smallest k >= 1 with `length` < 10^k."""
    return max(1, len(str(length))) if length > 0 else 1
