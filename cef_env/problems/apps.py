"""APPS and TACO: tests as JSON in one text, programs or functions, Python solutions.

    apps:train.jsonl
    taco:FOLDER?split=test&difficulty=hard,very_hard

A problem with `fn_name` is solved by a function: an input is its list of arguments. Where all expected values
of such a problem stand in lists of length one, the value inside is meant, as in these data sets' own graders.
"""

import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cef_env.problems.fields import Record, Skip, checker_for, require_readable
from cef_env.problems.index import Format, Parsed
from cef_env.problems.languages import CORRECT, kept
from cef_env.problems.limits import DEFAULT_MEMORY_LIMIT_MB, mebibytes, seconds
from cef_env.problems.types import Problem, TestCase

TIME_LIMIT_S = 4.0
"""Of APPS' own evaluation; TACO problems that name no limit get the same."""

MAX_DIGITS = 1_000_000
"""Of an integer in a test: conversion takes time that grows with the square."""
_DIGITS_LOCK = threading.Lock()


def parse_apps(record: Record, number: int) -> Parsed:
    """One problem of APPS."""
    id_ = record.identifier("id" if "id" in record.data and "problem_id" not in record.data else "problem_id")
    return _parse(record, id_, f"APPS {id_}", "apps")


def parse_taco(record: Record, number: int) -> Parsed:
    """One problem of TACO. It has no ids: file and row are its name, and the folder if that is a split."""
    name = record.text("name", "").strip()
    *_, folder, file = ["", *record.where.split("/")]
    split = f"{folder}/" if folder in ("train", "test") else ""
    return _parse(record, f"{split}{file.partition('.')[0]}-{number}", name or f"TACO {number}", "taco")


def _parse(record: Record, id_: str, title: str, source: str) -> Parsed:
    statement = record.text("question")
    require_readable(statement)
    with _long_integers():
        tests, function = _tests(record)
    notes: Counter[str] = Counter()
    programs = [("python3", text) for text in _solutions(record)]
    problem = Problem(
        id_,
        title,
        statement,
        tuple(tests),
        seconds(record, "time_limit") or TIME_LIMIT_S,
        mebibytes(record, "memory_limit") or DEFAULT_MEMORY_LIMIT_MB,
        "json" if function else checker_for(statement),
        difficulty=record.text("difficulty", "").lower() or None,
        source=source,
        starter_code=record.text("starter_code", "") or None,
        submissions=tuple(kept(programs, "solutions", CORRECT, notes)),
        function=function,
    )
    date = record.text("date", "")[:10]
    return Parsed(problem, date if re.fullmatch(r"\d{4}-\d\d-\d\d", date) else None, dict(notes))


@contextmanager
def _long_integers() -> Iterator[None]:
    """Lets JSON hold integers of more digits than Python converts by default: some tests do."""
    with _DIGITS_LOCK:
        before = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(MAX_DIGITS)
        try:
            yield
        finally:
            sys.set_int_max_str_digits(before)


def _tests(record: Record) -> tuple[list[TestCase], str | None]:
    if record.data.get("input_output") in ("", None):
        raise Skip("no tests")
    holder = Record(record.decoded("input_output"), record.where, "input_output")
    inputs, outputs = holder.items("inputs", []), holder.items("outputs", [])
    if len(inputs) != len(outputs):
        raise record.error("input_output", f"has {len(inputs)} inputs and {len(outputs)} outputs")
    if not inputs:
        raise Skip("no tests")
    function = holder.text("fn_name", "") or None
    if function is None:
        pairs = zip(inputs, outputs)
        return [TestCase(_lines(holder, "inputs", a), _lines(holder, "outputs", b)) for a, b in pairs], None
    wrapped = all(isinstance(output, list) and len(output) == 1 for output in outputs)
    tests = []
    for arguments, output in zip(inputs, outputs):
        if not isinstance(arguments, list):
            raise holder.error("inputs", "must hold lists of arguments, since there is a fn_name")
        value = output[0] if wrapped else output
        tests.append(TestCase("\n".join(map(json.dumps, arguments)) + "\n", json.dumps(value)))
    return tests, function


def _lines(holder: Record, name: str, value: Any) -> str:
    """What a program reads or prints: a text, or a list of lines."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str | int | float) for line in value):
        return "".join(f"{line}\n" for line in value)
    raise holder.error(name, f"must hold texts or lists of lines, not {type(value).__name__}")


def _solutions(record: Record) -> list[str]:
    if record.data.get("solutions") in ("", None):
        return []
    solutions = record.decoded("solutions")
    if not isinstance(solutions, list) or not all(isinstance(text, str) for text in solutions):
        raise record.error("solutions", "must be a list of programs")
    return solutions


APPS = Format("apps", 1, parse_apps)
TACO = Format("taco", 1, parse_taco)
