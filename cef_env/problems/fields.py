"""Typed access to the records of foreign data sets, so that a mistake names file, row and field.

Knows no data set; the loaders do.
"""

import datetime
import json
import re
from typing import Any

from cef_env.errors import UserError


class Skip(Exception):  # noqa: N818 - no error: a record that is left out by design
    """A record that is sound but cannot become a problem here; the text is the reason, and is counted."""


class Record:
    """One record of a data set, or an object inside one.

    Args:
        data: what the file holds.
        where: file and line or row, for messages.
        path: dotted name of this object inside the record; empty for the record itself.
    """

    def __init__(self, data: object, where: str, path: str = "") -> None:
        self.where, self.path = where, path
        if not isinstance(data, dict):
            what = f"field {path}" if path else "the record"
            raise UserError(f"{where}: {what} must be an object, not {_kind(data)}")
        self.data: dict[str, Any] = data

    def error(self, name: str, message: str) -> UserError:
        """A `UserError` about field `name`."""
        dotted = f"{self.path}.{name}" if self.path else name
        return UserError(f"{self.where}: field {dotted} {message}")

    def text(self, name: str, default: str | None = None) -> str:
        """A text; `default` stands for an absent or null field, without one that is an error."""
        value = self.data.get(name)
        if value is None and default is not None:
            return default
        if name not in self.data:
            raise self.error(name, f"is missing; there are {_names(self.data)}")
        if isinstance(value, datetime.date):  # a column of days or times
            return value.isoformat()
        if not isinstance(value, str):
            raise self.error(name, f"must be text, not {_kind(value)}")
        return value

    def identifier(self, name: str) -> str:
        """A text or a whole number that names the record."""
        value = self.data.get(name)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else self.text(name)

    def number(self, name: str) -> float | None:
        """A finite number, or None when absent or null."""
        value = self.data.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(name, f"must be a number, not {_kind(value)}")
        try:
            value = float(value)
        except OverflowError:
            value = float("inf")
        if not abs(value) < 1e300:
            raise self.error(name, "must be a finite number")
        return value

    def items(self, name: str, default: list[Any] | None = None) -> list[Any]:
        """A list; `default` stands for an absent or null field."""
        value = self.data.get(name)
        if value is None and default is not None:
            return default
        if name not in self.data:
            raise self.error(name, f"is missing; there are {_names(self.data)}")
        if not isinstance(value, list):
            raise self.error(name, f"must be a list, not {_kind(value)}")
        return value

    def inner(self, name: str) -> "Record":
        """The object in field `name`; empty when absent or null."""
        value = self.data.get(name)
        return Record({} if value is None else value, self.where, f"{self.path}.{name}".lstrip("."))

    def records(self, name: str, default: list[Any] | None = None) -> "list[Record]":
        """The objects of a list."""
        label = f"{self.path}.{name}".lstrip(".")
        items = self.items(name, default)
        return [Record(item, self.where, f"{label}[{position}]") for position, item in enumerate(items)]

    def pairs(self, name: str, first: str, second: str) -> list[tuple[Any, str]]:
        """Values of two fields side by side: from a list of objects, or from an object of two lists.

        Absent is empty. The second value of each pair is a text.
        """
        if isinstance(self.data.get(name), list):
            return [(item.data.get(first), item.text(second)) for item in self.records(name)]
        both = self.inner(name)
        left, right = both.items(first, []), both.items(second, [])
        if len(left) != len(right):
            raise self.error(name, f"has {len(left)} x {first} and {len(right)} x {second}")
        if not all(isinstance(text, str) for text in right):
            raise both.error(second, "must hold texts")
        return list(zip(left, right))

    def decoded(self, name: str) -> Any:
        """The value of a text field that holds JSON; a value that is no text is taken as it is."""
        value = self.data.get(name)
        if name not in self.data:
            raise self.error(name, f"is missing; there are {_names(self.data)}")
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise self.error(name, f"is not JSON ({json_reason(error)})") from error


def first_line(error: BaseException) -> str:
    """One short line about an error of a library."""
    text = str(error) or type(error).__name__
    return " ".join(text.split())[:160]


def json_reason(error: BaseException) -> str:
    """Why a text is not JSON, without the advice to a programmer that a huge integer brings."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return first_line(error).partition(";")[0]


def shown(value: object) -> str:
    """A value of a file in a message: short, and without expanding what a YAML file nests."""
    return repr(value[:40]) if isinstance(value, str) else _kind(value)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _names(data: dict[str, Any]) -> str:
    names = [repr(name)[1:-1][:40] for name in list(data)[:12]]
    return ", ".join(names) + (", ..." if len(data) > 12 else "") if names else "no fields"


_IMAGE = re.compile(
    r"!\[[^\]]*\]\([^)]*\)|<img\b[^>]*>|\\includegraphics(?:\[[^\]]*\])?\{[^}]*\}|<image>", re.I
)
_MARKUP = re.compile(r"<[^>]*>|[^\w]+")
MIN_LETTERS = 20
"""A statement with fewer characters beside its images is taken for one that is only an image."""
_INTERACTIVE = re.compile(
    r"\bthis is an? (?:\w+[- ])?interactive (?:problem|task)|\binteractive problem\b", re.I
)


def require_readable(statement: str) -> None:
    """`Skip` when the statement is only an image, or of a problem that is solved in a dialogue."""
    bare = _MARKUP.sub("", _IMAGE.sub("", statement))
    if len(bare) < MIN_LETTERS and (_IMAGE.search(statement) or not bare):
        raise Skip("statement is only an image, or empty")
    if _INTERACTIVE.search(statement):
        raise Skip("interactive")


_TOLERANCE = re.compile(
    r"(?:absolute|relative)[^.]{0,60}?error[^.]{0,120}?"
    r"(?:10\s*\^?\s*\{?\s*\$?\^?\{?\s*[-\u2013\u2212]\s*(\d{1,2})|1[eE]-(\d{1,2})|0\.(0{1,11})1\b)",
    re.IGNORECASE | re.DOTALL,
)


def checker_for(statement: str) -> str:
    """The checker of a problem whose source names none: numbers with the error that its statement allows."""
    found = _TOLERANCE.search(statement)
    if not found:
        return "tokens"
    digits = int(found[1] or found[2] or len(found[3]) + 1)
    return f"floats?abs=1e-{digits}&rel=1e-{digits}"
