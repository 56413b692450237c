"""JSON as models write it: quotes of any kind, trailing commas, braces missing at the end.

For short values that strict JSON refused. Takes linear time. Does not know what a value means.
"""

import json
import re

DEPTH = 8
"""Objects and lists within each other; a tool call needs two."""

_SPACE = re.compile(r"\s*+")
_BETWEEN = re.compile(r"[\s,]*+")
_WORD = re.compile(r"[^\s,:{}\[\]\"']++")
# Possessive, so that a long string costs neither time nor stack to give up on.
_STRINGS = [
    re.compile(rf"{quote}((?:[^\\{quote[0]}]++|\\.|{quote[0]}(?!{quote[1:]}))*+){quote}", re.DOTALL)
    if len(quote) > 1
    else re.compile(rf"{quote}((?:[^\\{quote}]++|\\.)*+){quote}", re.DOTALL)
    for quote in ('"""', "'''", '"', "'")
]
_ESCAPE = re.compile(r"(?:\\u[0-9a-fA-F]{4})++|\\.", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}


class NotReadableError(Exception):
    """The text is no value; the message says where it stops being one."""


def read_value(text: str) -> object:
    """The value that `text` starts with: dict, list, str, or None for anything else.

    Raises `NotReadableError`.
    """
    return _Reader(text).value(0)


def unescape(text: str) -> str:
    """The content of a string literal; escapes that nobody knows keep their backslash."""

    def replace(match: re.Match[str]) -> str:
        escape = match.group()
        if escape[1] == "u" and len(escape) > 2:
            return str(json.loads(f'"{escape}"'))
        if escape[1] in "\"'\\/":
            return escape[1]
        return _ESCAPED.get(escape[1], escape)

    return _ESCAPE.sub(replace, text)


class _Reader:
    """A position in a text, and the value that stands there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def value(self, depth: int) -> object:
        self.skip(_SPACE)
        first = self.peek()
        if depth > DEPTH:
            raise NotReadableError("too many braces within each other")
        if first == "{":
            return self.mapping(depth)
        if first == "[":
            return self.sequence(depth)
        if first in ('"', "'"):
            return self.string()
        self.word()
        return None  # a number, true, null: no argument of a tool

    def mapping(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        self.at += 1
        while self.more("}"):
            key = self.string() if self.peek() in ('"', "'") else self.word()
            self.skip(_SPACE)
            if self.peek() != ":":
                raise NotReadableError(f"a colon is missing after {key[:20]!r}")
            self.at += 1
            found[key] = self.value(depth + 1)
        return found

    def sequence(self, depth: int) -> list[object]:
        found = []
        self.at += 1
        while self.more("]"):
            found.append(self.value(depth + 1))
        return found

    def more(self, closing: str) -> bool:
        """Whether another element follows; consumes the end otherwise. The end of the text closes all."""
        self.skip(_BETWEEN)
        if self.peek() not in (closing, ""):
            return True
        self.at += 1
        return False

    def string(self) -> str:
        for pattern in _STRINGS:
            match = pattern.match(self.text, self.at)
            if match:
                self.at = match.end()
                return unescape(match.group(1))
        raise NotReadableError("a string does not end")

    def word(self) -> str:
        match = _WORD.match(self.text, self.at)
        if match is None:
            raise NotReadableError(f"{self.peek()!r} stands where a value should")
        self.at = match.end()
        return match.group()

    def skip(self, pattern: re.Pattern[str]) -> None:
        self.at = pattern.match(self.text, self.at).end()  # type: ignore[union-attr]

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]
