"""Compiles functions with numba, once for a machine: the first import of a module that uses this takes some
seconds, later ones read numba's cache.

That cache asks only whether a function's own file has changed, so what it calls belongs into the same file.
Does *not* fall back to interpreted Python where there is nowhere to keep that cache: it says what to set.
"""

from collections.abc import Callable
from typing import TypeVar

import numba

from cef_env.errors import UserError

F = TypeVar("F", bound=Callable[..., object])


def compiled(signatures: str | list[str] | None = None, **options: object) -> Callable[[F], F]:
    """Compile at import, or read from numba's cache; without signatures as a part of what uses it."""

    def compile_now(function: F) -> F:
        try:
            return numba.njit(signatures, cache=True, nogil=True, error_model="numpy", **options)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            raise UserError(
                "numba finds no folder that it may keep compiled code in; set NUMBA_CACHE_DIR to one"
            ) from None

    return compile_now
