"""What a family of built-in problems is, and the few helpers that the family modules share.

A family is one classic task over an array `a` of `n` integers and an integer `k`, with four kinds of
program bodies: a quadratic reference, an efficient reference, and natural bugs of each. Bodies leave
their answer in `s`; reading, transforming and printing are added by `compose.py`. Everything is written
as short lines that recur in many families, because a tiny model learns whole lines.

Does not make inputs (see `inputs.py`) and does not know transforms or splits.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ChooseK = Callable[[random.Random, Sequence[int]], int]
"""(rng, array after the transforms) -> the `k` of one test."""


@dataclass(frozen=True, slots=True)
class Family:
    """One task with its programs; `compose.py` turns it into many problems."""

    name: str
    task: str
    """The sentence of the statement that says what to compute."""
    brute_force: str
    """Body of the quadratic reference."""
    efficient: str
    """Body of the reference that meets the limits at n = 10000."""
    brute_force_bugs: tuple[str, ...]
    efficient_bugs: tuple[str, ...]
    choose_k: ChooseK
    natural: bool = False
    """Whether the task needs nonnegative elements (before and after every transform)."""
    min_n: int = 1
    subtle: bool = False
    """Whether the efficient program is long or easy to get wrong; the `hard` split uses only these."""
    large_shapes: tuple[str, str] = ("random", "random")
    """Shapes of the two largest inputs: where the quadratic program meets its worst case."""
    without: frozenset[str] = frozenset()
    """Transform kinds that would make the task trivial or hide one of its bugs."""


def variant(body: str, *changes: tuple[str, str]) -> str:
    """`body` with each (old, new) replaced once; an `AssertionError` when `old` is absent."""
    for old, new in changes:
        assert old in body, f"{old!r} not in\n{body}"
        body = body.replace(old, new, 1)
    return body


def any_k(rng: random.Random, a: Sequence[int]) -> int:
    """For tasks that do not use k."""
    return rng.randint(1, 9)


def small_k(rng: random.Random, a: Sequence[int]) -> int:
    """A small divisor or bound."""
    return rng.randint(1, 3) if rng.random() < 0.4 else rng.randint(2, 12)


def window_k(rng: random.Random, a: Sequence[int]) -> int:
    """A window length 1 <= k <= n; about half of n when n is large, where n*k work is at its worst."""
    n = len(a)
    return n // 2 - rng.randint(0, 9) if n > 1000 else rng.randint(1, max(1, min(n, n // 2 + 1)))
