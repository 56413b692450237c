"""How long the tests of a source are, and how many of its problems a coverage can tell apart.

Reads outlines only: for a source with an index that is no test at all. Does not judge anything.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cef_env.problems.problem_set import ProblemSet

DECADES = 7
"""Rows that are always shown: k = 1..7, lengths up to 10^7."""


@dataclass(frozen=True, slots=True)
class Level:
    """What one k adds."""

    k: int
    tests: int
    """Tests with 10^(k-1) <= length < 10^k; k = 1 holds the shorter ones, too."""
    have_reward: int
    """Problems with an R_k."""
    distinguish: int
    """Problems whose R_k and R_(k+1) can differ: both exist, and some test lies between."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Of one source."""

    problems: int
    tests: int
    characters: int
    """Of all inputs."""
    levels: tuple[Level, ...]
    difficulties: dict[str, int]
    skipped: dict[str, int]


def measure(problems: ProblemSet, progress: Callable[[int, int, str], None] | None = None) -> Stats:
    """The statistics of a source."""
    tests: Counter[int] = Counter()
    smallest: Counter[int] = Counter()
    distinguish: Counter[int] = Counter()
    difficulties: Counter[str] = Counter()
    characters = 0
    for done, id_ in enumerate(problems.ids, 1):
        outline = problems.outline(id_)
        tests.update(dict(outline.counts))
        smallest[outline.levels[0]] += 1
        distinguish.update(level - 1 for level in outline.levels[1:])
        # Between the smallest level and a later one every R_k exists; it differs only just below a level.
        difficulties[outline.difficulty or "none"] += 1
        characters += outline.characters
        if progress is not None:
            progress(done, len(problems), "")
    levels = tuple(
        Level(k, tests[k], sum(smallest[low] for low in smallest if low <= k), distinguish[k])
        for k in range(1, max([DECADES, *tests]) + 1)
    )
    by_count = dict(difficulties.most_common())
    return Stats(len(problems), sum(tests.values()), characters, levels, by_count, problems.skipped)
