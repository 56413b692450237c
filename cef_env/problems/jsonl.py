"""Problems as JSON lines, one problem a line, without loss.

Writing is atomic: a reader sees the old file or the complete new one. Reading goes by the index (`index.py`):
every line is parsed once, so that a damaged file is reported at once, and a problem is read when it is asked
for. Does not convert other data sets (see the loaders in this package).
"""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.problems.collection import Selection, collect
from cef_env.problems.fields import Record
from cef_env.problems.index import Format, Parsed
from cef_env.problems.problem_set import ProblemSet
from cef_env.problems.records import JsonLines
from cef_env.problems.types import CheckerProgram, Problem, Submission, TestCase

_TYPES: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "title": (str,),
    "statement": (str,),
    "tests": (list,),
    "time_limit_s": (int, float),
    "memory_limit_mb": (int,),
    "checker": (str,),
    "difficulty": (str, type(None)),
    "tags": (list,),
    "source": (str, type(None)),
    "starter_code": (str, type(None)),
    "submissions": (list,),
    "checker_program": (dict, type(None)),
    "function": (str, type(None)),
    "interactive": (bool,),
}
_TEST_TYPES: dict[str, tuple[type, ...]] = {"input": (str,), "output": (str,), "sample": (bool,)}
_CHECKER_TYPES: dict[str, tuple[type, ...]] = {
    "style": (str,),
    "source": (str,),
    "language": (str,),
    "arguments": (list,),
}
_SUBMISSION_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "program": (str,),
    "expected": (list,),
    "language": (str,),
    "permitted": (list,),
    "required": (list,),
}


def write(path: str | os.PathLike[str], problems: Iterable[Problem]) -> int:
    """Write `problems` to `path` and return how many; `path` is replaced only when all is on disk."""
    target = Path(path)
    if not target.parent.is_dir():
        raise UserError(f"{target}: the folder {target.parent} does not exist; create it first")
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    count = 0
    try:
        with os.fdopen(handle, "wb") as file:
            for problem in problems:
                # ASCII escapes keep lone surrogates and line separators exact.
                file.write(json.dumps(asdict(problem)).encode("ascii") + b"\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return count


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read(path: str | os.PathLike[str]) -> ProblemSet:
    """The problems of a file, in file order; `UserError` names file, line and field of a bad line."""
    return collect(f"jsonl:{os.fspath(path)}", [JsonLines(Path(path))], JSONL, Selection())


def _parse(record: Record, number: int) -> Parsed:
    where = record.where
    data = _checked(record.data, _TYPES, Problem, where, "")
    for position, test in enumerate(data["tests"]):
        data["tests"][position] = TestCase(
            **_checked(test, _TEST_TYPES, TestCase, where, f"tests[{position}].")
        )
    for position, submission in enumerate(data.get("submissions", ())):
        label = f"submissions[{position}]."
        fine = _checked(submission, _SUBMISSION_TYPES, Submission, where, label)
        for name in ("expected", "permitted", "required"):
            fine[name] = _strings(fine.get(name, []), where, f"{label}{name}")
        data["submissions"][position] = Submission(**fine)
    data["tags"] = _strings(data.get("tags", []), where, "tags")
    data["tests"] = tuple(data["tests"])
    data["submissions"] = tuple(data.get("submissions", ()))
    checker = data.pop("checker_program", None)
    if checker is not None:
        checker = _checked(checker, _CHECKER_TYPES, CheckerProgram, where, "checker_program.")
        checker["arguments"] = _strings(checker.get("arguments", []), where, "checker_program.arguments")
    try:
        problem = Problem(**data, checker_program=None if checker is None else CheckerProgram(**checker))
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return Parsed(problem)


JSONL = Format("jsonl", 1, _parse)


def _checked(
    data: object, types: Mapping[str, tuple[type, ...]], target: type, where: str, label: str
) -> dict[str, Any]:
    """`data` as keyword arguments of `target`, after checking names and types of its fields."""
    if not isinstance(data, dict):
        raise UserError(f"{where}: {label.rstrip('.') or 'the line'} must be a JSON object")
    for field in fields(target):
        needed = field.default is MISSING and field.default_factory is MISSING
        if needed and field.name not in data:
            raise UserError(f"{where}: field {label}{field.name} is missing")
    for name, value in data.items():
        if name not in types:
            raise UserError(f"{where}: unknown field {label}{name}; known: {', '.join(types)}")
        wrong = isinstance(value, bool) and bool not in types[name]
        if wrong or not isinstance(value, types[name]):
            names = " or ".join("null" if t is type(None) else t.__name__ for t in types[name])
            raise UserError(f"{where}: field {label}{name} must be {names}, not {type(value).__name__}")
    return dict(data)


def _strings(values: list[Any], where: str, name: str) -> tuple[str, ...]:
    if not all(isinstance(value, str) for value in values):
        raise UserError(f"{where}: field {name} must be a list of strings")
    return tuple(values)
