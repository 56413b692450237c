"""A space of arbitrary text.

`gymnasium.spaces.Text` is bound to an alphabet: with full Unicode it takes seconds to build, and its
shared-memory form silently returns filler strings. This space admits every `str`; in a vector
environment it needs `shared_memory=False` (gymnasium refuses it otherwise with an error).
"""

from typing import Any

import gymnasium as gym

_SAMPLE_ALPHABET = "abcdefghijklmnopqrstuvwxyz 0123456789\n`'\"()[]{}<>=+-*/%:.,_#é漢🙂"


class Unicode(gym.Space[str]):
    """Every Python string.

    `sample()` draws short nonsense, as a random policy would: it is for environment checkers.
    """

    def __init__(self, seed: int | Any | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Up to 80 random characters. Masks have no meaning here and are refused."""
        if mask is not None or probability is not None:
            raise ValueError("Unicode.sample() takes neither mask nor probability")
        size = int(self.np_random.integers(0, 81))
        return "".join(_SAMPLE_ALPHABET[i] for i in self.np_random.integers(0, len(_SAMPLE_ALPHABET), size))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode)

    def __hash__(self) -> int:
        return hash(Unicode)

    def __repr__(self) -> str:
        return "Unicode()"
