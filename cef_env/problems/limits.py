"""Time and memory limits as data sets write them: numbers in several units, and texts."""

import re

from cef_env.problems.fields import Record

DEFAULT_TIME_LIMIT_S = 2.0
DEFAULT_MEMORY_LIMIT_MB = 256
"""What most problems of such collections have; used where a record names none."""

_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(seconds?|secs?|s|milliseconds?|ms)?\s*", re.I)
_MEMORY = re.compile(
    r"\s*([0-9]+(?:\.[0-9]+)?)\s*(bytes?|b|kilobytes?|kb|kib|megabytes?|mb|mib|gigabytes?|gb|gib)?\s*", re.I
)
_UNITS = {"b": 1 / (1 << 20), "k": 1 / 1024, "m": 1.0, "g": 1024.0}
_NONE = ("", "none", "null", "unlimited", "-")


def seconds(record: Record, name: str) -> float | None:
    """Seconds, from a number or a text; None when the record names none.

    A bare number of 100 or more is milliseconds: no contest gives a program minutes.
    """
    value = record.data.get(name)
    if isinstance(value, str):
        if value.strip().lower() in _NONE:
            return None
        found = _TIME.fullmatch(value)
        if not found:
            raise record.error(name, f"must be a time such as '2.0 seconds', not {value[:40]!r}")
        number, unit = float(found[1]), (found[2] or "").lower()
        milliseconds = unit.startswith("m") or (not unit and number >= 100)
    else:
        plain = record.number(name)
        if plain is None or plain == 0:
            return None
        number, milliseconds = plain, plain >= 100
    return number / 1000 if milliseconds else number


def mebibytes(record: Record, name: str) -> int | None:
    """MiB, from a number or a text; None when the record names none.

    A bare number is MiB up to 8192, KiB up to 16 million, else bytes.
    """
    value = record.data.get(name)
    if isinstance(value, str):
        if value.strip().lower() in _NONE:
            return None
        found = _MEMORY.fullmatch(value)
        if not found:
            raise record.error(name, f"must be a size such as '256 megabytes', not {value[:40]!r}")
        number, unit = float(found[1]), (found[2] or "").lower()[:1]
    else:
        plain = record.number(name)
        if plain is None or plain == 0:
            return None
        number, unit = plain, ""
    if not unit:
        unit = "m" if number <= 8192 else "k" if number < (1 << 24) else "b"
    return max(1, round(number * _UNITS[unit]))
