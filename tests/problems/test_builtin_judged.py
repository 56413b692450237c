"""The judge's outcome for every labelled program of the built-in suite, family by family."""

import random

import pytest

from cef_env.judge import Judge
from cef_env.problems import Problem, builtin


def _one_of_each() -> list[Problem]:
    """For every family a large and a small problem, of any split."""
    rng = random.Random(11)
    wanted = {(family, small) for family in builtin.FAMILIES for small in (False, True)}
    problems: list[Problem] = []
    while wanted:
        c = builtin.draw(rng.choice(builtin.SPLITS), rng)
        if (c.family, c.small) in wanted:
            wanted.remove((c.family, c.small))
            problems.append(c.problem())
    return problems


@pytest.mark.slow
def test_every_labelled_program_has_its_outcome() -> None:
    cases = [
        (problem, submission)
        for problem in _one_of_each()
        for submission in problem.submissions
        # Bugs fail on small tests, which are the same in both size classes: judge them once.
        if "large" in problem.tags or not submission.kind.endswith("bug")
    ]
    with Judge() as judge:
        results = judge.map([(problem, submission.program) for problem, submission in cases])
    wrong = []
    for (problem, submission), result in zip(cases, results, strict=True):
        expected = submission.expected or ("correctness_failure", "optimization_failure")
        if result.outcome not in expected:
            wrong.append(f"{problem.id} {submission.kind}: {result.outcome}\n{submission.program}")
    assert not wrong, "\n".join(wrong)
