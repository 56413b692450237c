"""When two numbers, written as decimals, are near enough: |printed - expected| <= max(abs, rel * |expected|).

The answer is that of exact arithmetic on the decimals as they are written. Floating point decides the clear
cases, since outputs may hold millions of numbers, and decimals of high precision the close ones. Numbers that
are not finite in double precision, and forms such as `nan`, `inf`, `0x10` or `1_000`, are near nothing.
"""

import contextlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

import numpy as np

DECIMAL = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_CHARACTERS = b"0123456789+-.eE"
_EXACT = Context(prec=2000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])  # two doubles span some 640 digits
_ROUNDING = 1e-15
"""Bound on what floating point adds to a difference, as a share of the two numbers' magnitudes."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a number may be off."""

    absolute: Decimal
    relative: Decimal
    rough: tuple[float, float]
    """The same two as floats: converting them for each number would take longer than comparing."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Tolerance | None":
        """From the options `abs` and `rel` of a checker; None when neither is given."""
        if not {"abs", "rel"} & set(options):
            return None
        absolute, relative = Decimal(options.get("abs", "0")), Decimal(options.get("rel", "0"))
        return cls(absolute, relative, (float(absolute), float(relative)))

    def near(self, printed: Decimal, expected: Decimal) -> bool:
        """Whether two finite numbers are near, exactly."""
        error = _EXACT.abs(_EXACT.subtract(printed, expected))
        return error <= self.absolute or error <= _EXACT.multiply(self.relative, _EXACT.abs(expected))

    def first_beyond(self, printed: list[bytes], expected: list[bytes]) -> int | None:
        """Position of the first two tokens that are neither equal nor near numbers; the lists are as long."""
        suspects: Iterable[int] = range(len(printed))
        if not b"".join([*printed, *expected]).translate(None, _CHARACTERS):
            with contextlib.suppress(ValueError), np.errstate(invalid="ignore", over="ignore"):
                a, b = (np.fromiter(map(float, side), float, len(side)) for side in (printed, expected))
                suspects = map(int, np.flatnonzero(~self.clearly_near(a, b)))
        return next((n for n in suspects if not self._alike(printed[n], expected[n])), None)

    def clearly_near(self, printed: Any, expected: Any) -> Any:
        """For floats or arrays of them: near, and not so close to the limit that rounding could decide."""
        size = abs(expected)
        error = abs(printed - expected) + _ROUNDING * (abs(printed) + size)
        absolute, relative = self.rough
        return (error < absolute) | (error < relative * size)  # false for inf and nan

    def _alike(self, printed: bytes, expected: bytes) -> bool:
        if printed == expected:
            return True
        numbers = _number(printed), _number(expected)
        return None not in numbers and self.near(*numbers)  # type: ignore[arg-type]

    def note(self, printed: bytes, expected: bytes) -> str:
        """How far two tokens are apart, when both are numbers."""
        ours, theirs = _number(printed), _number(expected)
        if ours is None or theirs is None:
            return ""
        error = abs(float(_EXACT.subtract(ours, theirs)))
        relative = f", relative {error / abs(float(theirs)):.3g}" if float(theirs) else ""
        return f" (error {error:.3g}{relative})"


def _number(token: bytes) -> Decimal | None:
    """The finite number that a token writes, if it does."""
    if not DECIMAL.fullmatch(token) or not math.isfinite(float(token)):
        return None
    return Decimal(token.decode("ascii"))
