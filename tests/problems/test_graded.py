"""Graded problems: every coverage asks for something else, and the statement does not tell what."""

import math
import random
from collections import Counter

import pytest

from cef_env.judge import Judge, Outcome
from cef_env.problems import builtin, load
from cef_env.problems.builtin.compose import GRADED_LARGE

FIRST_FAILURE = {"weak": None, "large4": 4, "large": 5, "large6": 6}
"""Level of the first test that a quadratic program fails."""


def test_classes_have_their_shares_and_one_statement() -> None:
    rng = random.Random(0)
    drawn = [builtin.draw("hard", rng, graded=True) for _ in range(3000)]
    shares = Counter(c.size for c in drawn)
    assert 0.27 <= shares["weak"] / 3000 <= 0.33
    for size in GRADED_LARGE:
        assert 0.20 <= shares[size] / 3000 <= 0.27
    assert all("Limits: n <= 10000." in c.statement for c in drawn)


def test_programs_of_a_held_out_split_are_not_in_training() -> None:
    rng = random.Random(1)
    seen = {builtin.draw("train", rng, graded=True).efficient for _ in range(3000)}
    assert not seen & {builtin.draw("hard", rng, graded=True).efficient for _ in range(1000)}


@pytest.mark.slow
def test_the_slow_program_first_fails_where_its_class_says() -> None:
    """Two problems of each class and split, judged for real."""
    rng = random.Random(2)
    wanted = Counter({(split, size): 2 for split in builtin.SPLITS for size in FIRST_FAILURE})
    found = []
    while +wanted:
        c = builtin.draw(rng.choice(builtin.SPLITS), rng, graded=True)
        if wanted[c.split, c.size] > 0:
            wanted[c.split, c.size] -= 1
            found.append((c, c.problem()))
    with Judge() as judge:
        slow = judge.map([(problem, c.brute_force) for c, problem in found])
        fast = judge.map([(problem, c.efficient) for c, problem in found])
    for (c, problem), result in zip(found, slow):
        lengths = sorted(test.length for test in problem.tests)
        failed = [n for n, test in zip(lengths, result.tests) if test.verdict != "accepted"]
        level = math.floor(math.log10(failed[0])) + 1 if failed else None
        assert level == FIRST_FAILURE[c.size], problem.id
    assert [result.outcome for result in fast] == [Outcome.CORRECT] * len(found)


def test_ids_and_sources_name_them() -> None:
    problems = load("builtin:hard?count=20&seed=3&graded=1")
    assert problems.ids == builtin.load("hard", 20, 3, graded=True).ids
    for id_ in problems.ids:
        assert builtin.composition(id_).id == id_
        assert problems.get(id_).tags[1] == id_.rpartition(".")[2]
