"""Problems: statements, limits and tests ordered by length. See `types.py` for the definitions."""

from cef_env.problems.problem_set import ProblemSet
from cef_env.problems.sources import load
from cef_env.problems.types import CheckerProgram, Coverage, Problem, Submission, TestCase, parse_coverage

__all__ = [
    "CheckerProgram",
    "Coverage",
    "Problem",
    "ProblemSet",
    "Submission",
    "TestCase",
    "load",
    "parse_coverage",
]
