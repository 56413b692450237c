"""How the output of a program is compared with the expected one.

    tokens                       the same tokens, split at whitespace (the default)
    lines                        the same lines, but for whitespace at their ends and empty lines at the end
    floats?abs=1e-6&rel=1e-6     tokens, where numbers may differ by max(abs, rel * |expected|)
    json                         equal JSON values, see `json_checker.py`; also json?abs=...&rel=...

`case=ignore` (tokens, lines, floats) treats ASCII letters alike; `order=any` (tokens, lines) compares as
multisets; of `abs` and `rel`, the one that is not given is 0.

Runs on the host, on bytes: an output that is not UTF-8 is wrong, not an error. Texts are taken apart in
blocks, so that a large output costs little memory and a difference ends the work. Does not know limits or
exit statuses (see `verdicts.py`) and runs no checker programs (see `custom_checker.py`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from cef_env.errors import UserError
from cef_env.judge.json_checker import json_difference
from cef_env.judge.tolerance import DECIMAL, Tolerance

Checker = Callable[[bytes, bytes], str | None]
"""(printed, expected) -> None when the printed output is accepted, else one line: the first difference."""

BLOCK_BYTES = 1 << 16

Blocks = Iterator[list[bytes]]
Splitter = Callable[[bytes], Blocks]

_SPACE = re.compile(rb"\s")
_TOKEN = re.compile(rb"\S+")


def get_checker(spec: str) -> Checker:
    """The checker that `spec` describes; `UserError` says what is wrong with it and what there is."""
    name, _, query = spec.partition("?")
    if name not in CHECKERS:
        *most, last = sorted(CHECKERS)
        raise UserError(f"checker={spec!r}: use {', '.join(most)} or {last}")
    build, known = CHECKERS[name]
    options: dict[str, str] = {}
    for item in query.split("&") if query else ():
        option, _, value = item.partition("=")
        if option not in known or option in options:
            problem = "is given twice" if option in options else "is unknown"
            choices = ", ".join(f"{o}={_OPTION_VALUES[o]}" for o in known)
            raise UserError(f"checker={spec!r}: option {option!r} {problem}; {name} has {choices}")
        if option in ("abs", "rel"):
            fine = DECIMAL.fullmatch(value.encode()) and 0 <= float(value) < 1e300
        else:
            fine = value == _OPTION_VALUES[option]
        if not fine:
            raise UserError(
                f"checker={spec!r}: {option}={value!r} is not possible; use {_OPTION_VALUES[option]}"
            )
        options[option] = value
    if name == "floats" and not {"abs", "rel"} & set(options):
        raise UserError(f"checker={spec!r}: say how far numbers may be off, as in floats?abs=1e-6&rel=1e-6")
    return build(options)


def token_blocks(text: bytes) -> Blocks:
    """The tokens of a text, in order, a block at a time."""
    start = 0
    while start < len(text):
        space = _SPACE.search(text, start + BLOCK_BYTES)
        end = space.start() if space else len(text)
        yield text[start:end].split()
        start = end


def line_blocks(text: bytes) -> Blocks:
    """The lines of a text without the whitespace at their ends, and without empty lines at its end."""
    length = len(text.rstrip())
    start = 0
    while start < length:
        newline = text.find(b"\n", start + BLOCK_BYTES, length)
        end = newline if newline >= 0 else length
        yield [line.rstrip() for line in text[start:end].split(b"\n")]
        start = end + 1


def _aligned(ours: Blocks, theirs: Blocks) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Two sequences side by side in pieces of equal length; one side of the last piece may be empty."""
    a: list[bytes] = []
    b: list[bytes] = []
    while True:
        while not a and (block := next(ours, None)) is not None:
            a = block
        while not b and (block := next(theirs, None)) is not None:
            b = block
        both = min(len(a), len(b))
        if both == 0:
            yield a, b
            return
        yield a[:both], b[:both]
        a, b = a[both:], b[both:]


def _text_checker(options: dict[str, str], split: Splitter, what: str) -> Checker:
    """`tokens`, `lines` and `floats`: they differ in what a piece is and in when two pieces are alike."""
    tolerance = Tolerance.of(options)
    fold = bytes.lower if "case" in options else bytes

    def ordered(printed: bytes, expected: bytes) -> str | None:
        if printed == expected:
            return None
        before = 0
        for ours, theirs in _aligned(split(fold(printed)), split(fold(expected))):
            if len(ours) != len(theirs):
                counts = [sum(map(len, split(text))) for text in (printed, expected)]
                return f"printed {counts[0]} {what}s, expected {counts[1]}"
            if ours != theirs:
                found = _first(ours, theirs, tolerance)
                if found is not None:
                    position, note = found
                    pieces = (_short(_piece(text, split, before + position)) for text in (printed, expected))
                    where = _where(printed, split, what, before + position)
                    return "{}: printed {}, expected {}{}".format(where, *pieces, note)
            before += len(ours)
        return None

    def unordered(printed: bytes, expected: bytes) -> str | None:
        missing: Counter[bytes] = Counter()
        total = 0
        for block in split(fold(expected)):
            missing.update(block)
            total += len(block)
        position = 0
        for block in split(fold(printed)):
            for piece in block:
                left = missing.get(piece)
                if not left:
                    often = "not expected" if left is None else "expected less often"
                    shown = _short(_piece(printed, split, position))
                    return f"{_where(printed, split, what, position)}: printed {shown}, which is {often}"
                missing[piece] = left - 1
                position += 1
        if position == total:
            return None
        lost = next(piece for block in split(fold(expected)) for piece in block if missing[piece])
        return f"{what} {_short(lost)} is missing"

    return unordered if "order" in options else ordered


def _first(ours: list[bytes], theirs: list[bytes], tolerance: Tolerance | None) -> tuple[int, str] | None:
    """Position of the first two pieces that are not alike, and what to say about it."""
    if tolerance is not None:
        position = tolerance.first_beyond(ours, theirs)
        return None if position is None else (position, tolerance.note(ours[position], theirs[position]))
    return next(position for position, (a, b) in enumerate(zip(ours, theirs)) if a != b), ""


def _piece(text: bytes, split: Splitter, position: int) -> bytes:
    for block in split(text):
        if position < len(block):
            return block[position]
        position -= len(block)
    return b""


def _where(printed: bytes, split: Splitter, what: str, position: int) -> str:
    """Line and, for tokens, number of the token in the whole output; both count from 1."""
    if split is line_blocks:
        return f"line {position + 1}"
    start, left = 0, position
    for block in token_blocks(printed):
        if left < len(block):
            break
        left -= len(block)
        start = _SPACE.search(printed, start + BLOCK_BYTES).start()  # type: ignore[union-attr]
    matches = _TOKEN.finditer(printed, start)
    offset = next(match.start() for number, match in enumerate(matches) if number == left)
    line = printed.count(b"\n", 0, offset) + 1
    return f"line {line}, {what} {position + 1}"


def _short(piece: bytes) -> str:
    text = piece[:40].decode("utf-8", "backslashreplace")
    return repr(text + ("..." if len(piece) > 40 else ""))


def _tokens(options: dict[str, str]) -> Checker:
    return _text_checker(options, token_blocks, "token")


def _lines(options: dict[str, str]) -> Checker:
    return _text_checker(options, line_blocks, "line")


def _json(options: dict[str, str]) -> Checker:
    tolerance = Tolerance.of(options)
    return lambda printed, expected: json_difference(printed, expected, tolerance)


_OPTION_VALUES = {"case": "ignore", "order": "any", "abs": "1e-6 or another number >= 0"}
_OPTION_VALUES["rel"] = _OPTION_VALUES["abs"]

CHECKERS: dict[str, tuple[Callable[[dict[str, str]], Checker], tuple[str, ...]]] = {
    "tokens": (_tokens, ("case", "order")),
    "lines": (_lines, ("case", "order")),
    "floats": (_tokens, ("abs", "rel", "case")),
    "json": (_json, ("abs", "rel")),
}
"""Every name that a `Problem.checker` may start with: how to build it, and its options."""
