"""How the output of a program is compared with the expected one.

Runs on the host, on bytes: an output that is not UTF-8 is wrong, not an error. Does not know limits or
exit statuses (see `verdicts.py`).
"""

from collections.abc import Callable

from cef_env.errors import UserError

Checker = Callable[[bytes, bytes], bool]
"""(printed, expected) -> whether the printed output is accepted."""


def tokens(printed: bytes, expected: bytes) -> bool:
    """The same tokens, split at whitespace, compared exactly."""
    return printed == expected or printed.split() == expected.split()


def lines(printed: bytes, expected: bytes) -> bool:
    """The same lines; whitespace at the end of a line and empty lines at the end are ignored."""
    return printed == expected or _stripped_lines(printed) == _stripped_lines(expected)


def _stripped_lines(text: bytes) -> list[bytes]:
    return [line.rstrip() for line in text.rstrip().split(b"\n")]


CHECKERS: dict[str, Checker] = {"tokens": tokens, "lines": lines}
"""Every name that `Problem.checker` may have."""


def get_checker(name: str) -> Checker:
    """The checker called `name`; `UserError` when there is none."""
    if name not in CHECKERS:
        raise UserError(f"checker={name!r}: use {' or '.join(sorted(CHECKERS))}")
    return CHECKERS[name]
