"""Shared parts: one judge for all tests that only need one, a small set of problems, no warnings."""

import contextlib
import gc
import warnings
from collections.abc import Iterator

import pytest

from cef_env.judge import Judge
from cef_env.problems import Problem, ProblemSet, TestCase


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with Judge() as instrument:
        yield instrument


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """Every warning is an error. What other tests left to be collected may warn before, not in here."""
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def double(id_: str = "double", lengths: tuple[int, ...] = (1, 3, 30, 300)) -> Problem:
    """Read a number, print its double. `lengths` are the characters of the tests' inputs."""
    tests = []
    for length in lengths:
        number = int("7" * length)
        tests.append(TestCase(str(number), f"{2 * number}\n"))
    return Problem(id_, "Double", "Read one integer and print its double.", tuple(tests))


@pytest.fixture
def doubles() -> ProblemSet:
    """Two problems; only the first has a test under 10 characters."""
    return ProblemSet.of([double("small"), double("large", (20, 200))])
