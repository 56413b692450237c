"""A lazy, ordered collection of problems: ids are known, bodies are made or read on demand.

Does not know where problems come from; sources build one of these (`cef_env.problems.load`).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import overload

from cef_env.errors import UserError
from cef_env.problems.types import Problem


class ProblemSet(Sequence[Problem]):
    """Problems by position and by id, fetched lazily and kept in a small LRU cache.

    Args:
        name: the source string, for messages.
        ids: every id, in order.
        fetch: id -> Problem; deterministic.
        smallest_level: id -> the problem's smallest coverage level, where the source knows it without
            building the problem; by default the problem is fetched and asked.
        keep: how many fetched problems stay in memory.
    """

    def __init__(
        self,
        name: str,
        ids: Iterable[str],
        fetch: Callable[[str], Problem],
        smallest_level: Callable[[str], int] | None = None,
        keep: int = 256,
    ) -> None:
        self.name = name
        self.ids = tuple(ids)
        self._known = frozenset(self.ids)
        if len(self._known) != len(self.ids):
            twice = next(id_ for id_ in self.ids if self.ids.count(id_) > 1)
            raise UserError(
                f"problem source {name!r}: id {twice!r} occurs more than once; ids must be unique"
            )
        self._fetch = lru_cache(maxsize=keep)(fetch)
        self._smallest_level = smallest_level or (lambda id_: self._fetch(id_).levels[0])

    @classmethod
    def of(cls, problems: Iterable[Problem], name: str = "list") -> "ProblemSet":
        """A set over problems that are already in memory."""
        problems = list(problems)
        table = {problem.id: problem for problem in problems}
        return cls(name, [problem.id for problem in problems], table.__getitem__, keep=1)

    def get(self, id_: str) -> Problem:
        """The problem with this id; `UserError` when there is none."""
        if id_ not in self._known:
            raise UserError(
                f"problem source {self.name!r} has no problem {id_!r}; `cef problems list` shows its ids"
            )
        return self._fetch(id_)

    def smallest_level(self, id_: str) -> int:
        """The smallest k for which this problem has an R_k."""
        return self._smallest_level(id_)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> "ProblemSet": ...
    def __getitem__(self, index: int | slice) -> "Problem | ProblemSet":
        if isinstance(index, slice):
            return ProblemSet(self.name, self.ids[index], self._fetch, self._smallest_level, keep=1)
        return self._fetch(self.ids[index])

    def __repr__(self) -> str:
        return f"ProblemSet({self.name!r}, {len(self)} problems)"
