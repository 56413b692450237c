"""APPS and TACO: tests as JSON in one text, programs or functions, Python solutions.

    apps:train.jsonl
    taco:FOLDER?split=test&difficulty=hard,very_hard

A problem with `fn_name` is solved by a function: an input is its list of arguments. Where all expected values
of such a problem stand in lists of length one, the value inside is meant, as in these data sets' own graders.
"""

import json
from collections import Counter
from typing import Any

from cef_env.problems.fields import Record, Skip, checker_for, require_readable
from cef_env.problems.index import Format, Parsed
from cef_env.problems.languages import CORRECT, kept
from cef_env.problems.limits import DEFAULT_MEMORY_LIMIT_MB, mebibytes, seconds
from cef_env.problems.types import Problem, TestCase

TIME_LIMIT_S = 4.0
"""Of APPS' own evaluation; TACO problems that name no limit get the same."""


def parse_apps(record: Record, number: int) -> Parsed:
    """One problem of APPS."""
    value = record.data.get("problem_id")
    if "problem_id" not in record.data and "id" in record.data:
        value = record.data["id"]
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise record.error("problem_id", "must be a number or a text")
    return _parse(record, str(value), f"APPS {value}", "apps")


def parse_taco(record: Record, number: int) -> Parsed:
    """One problem of TACO. It has no ids: its row is its name."""
    name = record.text("name", "").strip()
    stem = record.where.rpartition("/")[2].partition(".")[0]
    return _parse(record, f"{stem}-{number}", name or f"TACO {number}", "taco")


def _parse(record: Record, id_: str, title: str, source: str) -> Parsed:
    statement = record.text("question")
    require_readable(statement)
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
    date = record.text("date", "")[:10] if isinstance(record.data.get("date"), str) else ""
    return Parsed(problem, date or None, dict(notes))


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
