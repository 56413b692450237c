"""A lazy, ordered collection of problems: ids are known, bodies are made or read on demand.

Does not know where problems come from; sources build one of these (`cef_env.problems.load`).
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from cef_env.errors import UserError
from cef_env.problems.types import Problem, coverage_level

KEEP_CHARACTERS = 64 << 20
"""Test characters of fetched problems that stay in memory: single problems hold hundreds of megabytes."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known of a problem without reading its tests."""

    counts: tuple[tuple[int, int], ...]
    """(level, tests of that level), ascending: a level is the smallest k with length < 10^k."""
    characters: int = 0
    """Of all tests' inputs."""
    difficulty: str | None = None
    date: str | None = None
    """ISO day on which the problem was first used in a contest."""

    @classmethod
    def of(cls, problem: Problem, date: str | None = None) -> "Outline":
        counts = Counter(coverage_level(test.length) for test in problem.tests)
        characters = sum(test.length for test in problem.tests)
        return cls(tuple(sorted(counts.items())), characters, problem.difficulty, date)

    @property
    def levels(self) -> tuple[int, ...]:
        """As `Problem.levels`."""
        return tuple(level for level, _ in self.counts)

    @property
    def tests(self) -> int:
        return sum(count for _, count in self.counts)


class _Kept:
    """`fetch` with a small memory of what it returned last, by count and by size. Thread-safe."""

    def __init__(self, fetch: Callable[[str], Problem], keep: int) -> None:
        self._fetch, self._keep = fetch, keep
        self._problems: OrderedDict[str, tuple[Problem, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._characters = 0

    def __call__(self, id_: str) -> Problem:
        with self._lock:
            if id_ in self._problems:
                self._problems.move_to_end(id_)
                return self._problems[id_][0]
        problem = self._fetch(id_)
        size = sum(len(test.input) + len(test.output) for test in problem.tests)
        with self._lock:
            if id_ not in self._problems:
                self._problems[id_] = problem, size
                self._characters += size
            while len(self._problems) > self._keep or (
                self._characters > KEEP_CHARACTERS and len(self._problems) > 1
            ):
                _, (_, gone) = self._problems.popitem(last=False)
                self._characters -= gone
        return problem


class ProblemSet(Sequence[Problem]):
    """Problems by position and by id, fetched lazily; the last ones stay in memory.

    Args:
        name: the source string, for messages.
        ids: every id, in order.
        fetch: id -> Problem; deterministic.
        smallest_level: id -> the problem's smallest coverage level, where the source knows it without
            building the problem; by default the outline is asked.
        keep: how many fetched problems stay in memory, `KEEP_CHARACTERS` permitting.
        outline: id -> Outline, where the source knows it; by default the problem is fetched and measured.
        skipped: reason -> how many records of the source are left out for it.
    """

    def __init__(
        self,
        name: str,
        ids: Iterable[str],
        fetch: Callable[[str], Problem],
        smallest_level: Callable[[str], int] | None = None,
        keep: int = 256,
        outline: Callable[[str], Outline] | None = None,
        skipped: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        self.ids = tuple(ids)
        self.skipped = dict(skipped or {})
        self._known = frozenset(self.ids)
        if len(self._known) != len(self.ids):
            twice = next(id_ for id_, count in Counter(self.ids).items() if count > 1)
            raise UserError(
                f"problem source {name!r}: id {twice!r} occurs more than once; ids must be unique"
            )
        self._fetch = fetch if isinstance(fetch, _Kept) else _Kept(fetch, keep)
        self._outline = outline or (lambda id_: Outline.of(self._fetch(id_)))
        self._smallest_level = smallest_level or (lambda id_: self._outline(id_).levels[0])

    @classmethod
    def of(cls, problems: Iterable[Problem], name: str = "list") -> "ProblemSet":
        """A set over problems that are already in memory."""
        problems = list(problems)
        table = {problem.id: problem for problem in problems}
        return cls(name, [problem.id for problem in problems], table.__getitem__, keep=1)

    def get(self, id_: str) -> Problem:
        """The problem with this id; `UserError` when there is none."""
        return self._fetch(self._present(id_))

    def outline(self, id_: str) -> Outline:
        """Levels, number and size of a problem's tests; sources with an index read no test for it."""
        return self._outline(self._present(id_))

    def smallest_level(self, id_: str) -> int:
        """The smallest k for which this problem has an R_k."""
        return self._smallest_level(id_)

    def _present(self, id_: str) -> str:
        if id_ not in self._known:
            raise UserError(
                f"problem source {self.name!r} has no problem {id_!r}; `cef problems list` shows its ids"
            )
        return id_

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> "ProblemSet": ...
    def __getitem__(self, index: int | slice) -> "Problem | ProblemSet":
        if isinstance(index, slice):
            return ProblemSet(
                self.name,
                self.ids[index],
                self._fetch,
                self._smallest_level,
                outline=self._outline,
                skipped=self.skipped,
            )
        return self._fetch(self.ids[index])

    def __repr__(self) -> str:
        return f"ProblemSet({self.name!r}, {len(self)} problems)"
