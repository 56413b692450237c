"""Arrays for tests: which sizes a problem has, and shapes of arrays in which bugs and slow code show.

Lengths in characters follow the definition of coverage: every problem has tests in each decade from
under 10 characters up, all but small and weak problems to over 10^5. Does not choose `k` and runs no
program.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

LARGE_N = 10_000
SMALL_N = 300
SHAPES = ("random", "few", "rising", "falling", "equal", "negative", "positive")
"""Shapes that small tests are drawn from; large tests name theirs."""

WIDE = 10**14
"""The scale of fifteen-digit numbers."""


DENSE_N = 4900
"""So many one-digit numbers stay under 10^4 characters, and a quadratic program is over the limit on them."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One test of the plan: n elements of magnitude up to `scale`; shape "" means any."""

    n: int
    scale: int
    shape: str = ""
    natural: bool = False
    """Whether no element is negative, whatever the family takes."""

    @property
    def large(self) -> bool:
        """Whether the test is there for its size; the others are there to expose bugs."""
        return self.n >= 150


_TINY = (
    Slot(2, 30, "random"),
    Slot(6, 40, "negative"),
    Slot(6, 40, "positive"),
    Slot(12, 5, "random"),
    Slot(40, 50),
    Slot(90, 999),
)


def plan(size: str, large_shapes: tuple[str, str]) -> tuple[Slot, ...]:
    """The tests of a problem of this size class after its first one, shortest first."""
    first, second = large_shapes
    if size in ("small", "weak"):
        return (*_TINY, Slot(150, WIDE, first), Slot(SMALL_N, WIDE, second))
    tests = [*_TINY, Slot(150, WIDE), Slot(400, WIDE, second)]
    if size == "large4":
        tests += [Slot(DENSE_N, 9, shape, natural=True) for shape in large_shapes]
    tests.append(Slot(6300 if size == "large6" else 4000, WIDE, first))
    return (*tests, Slot(6300, WIDE, second))


def array(rng: random.Random, slot: Slot, natural: bool) -> list[int]:
    """A random array for `slot`; no element is negative when `natural`."""
    n, scale, natural = slot.n, slot.scale, natural or slot.natural
    shape = slot.shape or rng.choice(SHAPES)
    if scale == WIDE:
        return _wide(rng, n, shape, natural)
    if shape == "equal":
        return [rng.randint(0 if natural else -scale, scale)] * n
    if shape == "negative" and not natural:
        return [rng.randint(-scale, -scale // 3) for _ in range(n)]
    if shape == "positive":
        return [rng.randint(scale // 3 + 1, scale) for _ in range(n)]
    if shape == "few":
        scale = max(1, scale // 4)
    a = [rng.randint(0 if natural else -scale, scale) for _ in range(n)]
    if shape in ("rising", "falling"):
        a.sort(reverse=shape == "falling")
    return a


def _wide(rng: random.Random, n: int, shape: str, natural: bool) -> list[int]:
    """Fifteen-digit magnitudes, so that 10^5 characters need only about 6300 elements."""
    if shape in ("few", "equal"):
        pool = [WIDE + int(rng.random() * 9 * WIDE) for _ in range(1 if shape == "equal" else n // 8)]
    else:
        pool = []
    values = rng.choices(pool, k=n) if pool else [WIDE + int(rng.random() * 9 * WIDE) for _ in range(n)]
    if shape == "negative" and not natural:
        return [-x for x in values]
    if shape in ("random", "few") and not natural:
        signs = rng.choices((1, -1), k=n)
        return [x * sign for x, sign in zip(values, signs)]
    if shape in ("rising", "falling"):
        values.sort(reverse=shape == "falling")
    return values


def first_array(rng: random.Random, n: int) -> list[int]:
    """The shortest test: small nonnegative digits, so that it stays under 10 characters."""
    return [rng.randint(0, 5) for _ in range(n)]


def text(a: Sequence[int], k: int) -> str:
    """The input format: n and k on the first line, a on the second."""
    return f"{len(a)} {k}\n{' '.join(map(str, a))}\n"
