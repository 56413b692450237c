"""Where two outputs part, for people: line, token, what stands around it; safe to print in a terminal.

Does not decide whether an output is accepted: that is the checker's, which may forgive what is shown here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

CONTEXT_TOKENS = 4
MAX_TOKEN = 40
_TOKEN = re.compile(rb"\S+")  # the white space of bytes.split(), which the checker `tokens` uses


@dataclass(frozen=True, slots=True)
class Side:
    """One of two outputs at the place where they part."""

    line: int
    """From 1."""
    before: str
    """A few tokens."""
    here: str | None
    """The token; None where the output has ended."""
    after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two outputs part."""

    token: int | None
    """Number of the first token that differs, from 1; None when only lines or spaces do."""
    printed: Side
    expected: Side


def first_difference(printed: bytes, expected: bytes) -> Difference | None:
    """Where the tokens of two outputs first differ; None when they are the same."""
    ours, theirs = list(_TOKEN.finditer(printed)), list(_TOKEN.finditer(expected))
    for index in range(max(len(ours), len(theirs))):
        got, wanted = _at(ours, index), _at(theirs, index)
        if got != wanted:
            parting = next((i for i, pair in enumerate(zip(got, wanted)) if pair[0] != pair[1]), 0)
            sides = (_side(printed, ours, index, parting), _side(expected, theirs, index, parting))
            return Difference(index + 1, *sides)
    return None


def first_line_difference(printed: bytes, expected: bytes) -> Difference | None:
    """Where two outputs of the same tokens have other lines or spaces; None when they do not."""
    ours, theirs = printed.rstrip().split(b"\n"), expected.rstrip().split(b"\n")
    for index in range(max(len(ours), len(theirs))):
        got, wanted = (lines[index].rstrip() if index < len(lines) else None for lines in (ours, theirs))
        if got != wanted:
            sides = (
                Side(index + 1, "", None if line is None else readable(line, 2 * MAX_TOKEN), "")
                for line in (got, wanted)
            )
            return Difference(None, *sides)
    return None


def readable(text: bytes | str, most: int = MAX_TOKEN, start: int = 0) -> str:
    """Text without anything that a terminal would obey; at most `most` characters of it from `start`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    shown = text[start : start + most]
    safe = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in shown
    )
    return ("..." if start > 0 else "") + safe + ("..." if start + most < len(text) else "")


def _at(tokens: Sequence[re.Match[bytes]], index: int) -> bytes:
    return tokens[index].group() if index < len(tokens) else b""


def _side(text: bytes, tokens: Sequence[re.Match[bytes]], index: int, parting: int) -> Side:
    here = None
    line = text.rstrip().count(b"\n") + 1
    if index < len(tokens):
        here = readable(tokens[index].group(), start=max(0, parting - MAX_TOKEN // 2))
        line = text.count(b"\n", 0, tokens[index].start()) + 1
    before = tokens[max(0, min(index, len(tokens)) - CONTEXT_TOKENS) : index]
    after = tokens[index + 1 : index + 1 + CONTEXT_TOKENS]
    return Side(
        line,
        ("... " if index > CONTEXT_TOKENS else "") + _joined(before),
        here,
        _joined(after) + (" ..." if index + 1 + CONTEXT_TOKENS < len(tokens) else ""),
    )


def _joined(tokens: Sequence[re.Match[bytes]]) -> str:
    return " ".join(readable(token.group(), MAX_TOKEN // 2) for token in tokens)
