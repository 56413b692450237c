"""Whether two JSON texts hold equal values: the comparison for problems whose program is a function.

Values are equal as in Python, as the usual graders of such problems compare them: 1 equals 1.0 and true, the
order of keys does not count, the order of a list does. With a tolerance, numbers other than booleans may be
near. Not equal to anything: texts that are not JSON, NaN, objects that repeat a key, and values nested too
deeply for Python's parser. An expected text of that kind raises ValueError: it is a fault of the problem.
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from cef_env.judge.tolerance import Tolerance

_PLAIN_DIGITS = 4000  # Python refuses to read integers of more than 4300 digits


def json_difference(printed: bytes, expected: bytes, tolerance: Tolerance | None = None) -> str | None:
    """None when the values are equal, else one line that says where they part."""
    try:
        wanted = parse(expected)
    except RecursionError as error:
        raise ValueError("the expected output is nested too deeply") from error
    try:
        answer = parse(printed)
        if answer == wanted:
            return None
    except RecursionError:
        return "the answer is nested too deeply"
    except ValueError as error:
        return f"the answer is not JSON: {error}"
    return _difference(answer, wanted, tolerance)


def parse(text: bytes) -> Any:
    """The value of a JSON text; integers of any size; ValueError or RecursionError when it has none."""
    decoded = text.decode("utf-8", "surrogatepass")
    try:
        return json.loads(decoded, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError:
        raise
    except ValueError:  # perhaps a long integer; slower, so only when needed
        return json.loads(decoded, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object repeats a key")
    return value


def _constant(name: str) -> float:
    if name == "NaN":
        raise ValueError("NaN equals nothing")
    return float(name)


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < _PLAIN_DIGITS else Decimal(digits)


def _difference(answer: Any, wanted: Any, tolerance: Tolerance | None) -> str | None:
    """The first place where two values part; without recursion, since the values came from outside."""
    trail: list[Iterator[tuple[Any, Any, Any]]] = [iter([("", answer, wanted)])]
    path: list[Any] = [""]
    while trail:
        step = next(trail[-1], None)
        if step is None:
            trail.pop()
            path.pop()
            continue
        key, ours, theirs = step
        if isinstance(ours, list) and isinstance(theirs, list):
            if len(ours) != len(theirs):
                return f"{_name(path, key)} has {len(ours)} elements, expected {len(theirs)}"
            trail.append(_unequal(ours, theirs))
            path.append(key)
        elif isinstance(ours, dict) and isinstance(theirs, dict):
            for name in [*theirs, *ours]:
                if name not in ours or name not in theirs:
                    fault = "misses" if name in theirs else "has the unexpected"
                    return f"{_name(path, key)} {fault} key {_short(name)}"
            trail.append(zip(theirs, map(ours.__getitem__, theirs), theirs.values()))
            path.append(key)
        elif ours != theirs and not _near(ours, theirs, tolerance):
            return f"{_name(path, key)} is {_short(ours)}, expected {_short(theirs)}"
    return None


def _unequal(ours: list[Any], theirs: list[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Position and elements of the places where two lists of equal length may part."""
    for start in range(0, len(ours), 256):
        a, b = ours[start : start + 256], theirs[start : start + 256]
        if a != b:
            yield from zip(range(start, start + 256), a, b)


def _near(ours: Any, theirs: Any, tolerance: Tolerance | None) -> bool:
    if tolerance is None or any(type(value) not in (int, float, Decimal) for value in (ours, theirs)):
        return False
    if type(ours) is type(theirs) is float and tolerance.clearly_near(ours, theirs):
        return True
    printed, expected = Decimal(ours), Decimal(theirs)
    return printed.is_finite() and expected.is_finite() and tolerance.near(printed, expected)


def _name(path: list[Any], key: Any) -> str:
    steps = [step for step in (*path, key) if step != ""]
    shown = "".join(f"[{_short(step)}]" for step in steps[:8])
    return f"answer{shown}{'...' if len(steps) > 8 else ''}"


def _short(value: Any) -> str:
    """At most some 40 characters, and never the work of writing out all of a large value."""
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "...")
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = str(value)
    return text if len(text) <= 40 else text[:40] + "..."
