"""LiveCodeBench, the files of `code_generation_lite`: `test.jsonl`, `test2.jsonl`, ...

    lcb:data/test6.jsonl
    lcb:data?release=v6&difficulty=hard&after=2024-08-01&before=2025-01-31

Hidden tests are JSON, or base64 of zlib of a pickle of JSON. The pickle is read with an unpickler that makes
nothing but a `str`. Does not draw prompts (see `prompts.py`).
"""

import base64
import binascii
import io
import json
import pickle
import re
import zlib
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.problems.fields import Record, Skip, checker_for, first_line, json_reason, require_readable
from cef_env.problems.index import Format, Parsed
from cef_env.problems.types import Problem, TestCase

TIME_LIMIT_S = 6.0
"""Of LiveCodeBench's own evaluation, for each test."""
MEMORY_LIMIT_MB = 1024
"""LiveCodeBench sets none; this is what its AtCoder problems allow."""
MAX_DECOMPRESSED_BYTES = 512 << 20
"""Hidden tests of one problem that would take more are refused."""


class _StrUnpickler(pickle.Unpickler):
    """Makes no objects: a pickle that names a class or function is refused before anything is called."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module[:40]}.{name[:40]}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to something outside")


def unpickle_str(data: bytes) -> str:
    """The one string in a pickle; `pickle.UnpicklingError` for a pickle of anything else."""
    try:
        value = _StrUnpickler(io.BytesIO(data)).load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise pickle.UnpicklingError(first_line(error)) from error
    if type(value) is not str:
        raise pickle.UnpicklingError(f"it holds {type(value).__name__}, not str")
    return value


def _hidden(record: Record) -> Any:
    """The hidden tests: JSON, or what the short form packs."""
    name = "private_test_cases"
    packed = record.data.get(name)
    if not isinstance(packed, str) or packed.lstrip()[:1] in ("[", ""):
        return record.decoded(name) if packed != "" else []
    try:
        raw = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError) as error:
        raise record.error(name, f"is neither JSON nor base64 ({first_line(error)})") from error
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(raw, MAX_DECOMPRESSED_BYTES)
        if inflater.unconsumed_tail:
            raise record.error(name, f"unpacks to more than {MAX_DECOMPRESSED_BYTES >> 20} MiB; refused")
        if not inflater.eof:
            raise record.error(name, "is cut off: its zlib data has no end")
    except zlib.error as error:
        raise record.error(name, f"is not zlib data ({first_line(error)})") from error
    del raw
    try:
        text = unpickle_str(data)
    except pickle.UnpicklingError as error:
        raise record.error(name, f"is not a pickled str; refused: {first_line(error)}") from error
    del data
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise record.error(name, f"does not hold JSON ({json_reason(error)})") from error


def _tests(record: Record, name: str, value: Any, sample: bool) -> tuple[list[TestCase], set[str]]:
    holder = Record({name: value}, record.where)
    tests, kinds = [], set()
    for test in holder.records(name, []):
        kinds.add(test.text("testtype", "stdin"))
        tests.append(TestCase(test.text("input"), test.text("output"), sample))
    return tests, kinds


def parse(record: Record, number: int) -> Parsed:
    """One problem of LiveCodeBench."""
    id_, statement = record.text("question_id"), record.text("question_content")
    date = record.text("contest_date")[:10]
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise record.error("contest_date", f"must begin with a day such as 2024-08-01, not {date!r}")
    require_readable(statement)
    shown, kinds = _tests(record, "public_test_cases", record.decoded("public_test_cases"), True)
    hidden, more = _tests(record, "private_test_cases", _hidden(record), False)
    kinds |= more
    if not shown and not hidden:
        raise Skip("no tests")
    if not kinds <= {"stdin", "functional"} or len(kinds) > 1:
        raise record.error("public_test_cases", f"has tests of type {', '.join(sorted(map(repr, kinds)))}")
    function = None
    if kinds == {"functional"}:
        metadata = Record(record.decoded("metadata"), record.where, "metadata")
        function = metadata.text("func_name")
    problem = Problem(
        id_,
        record.text("question_title", ""),
        statement,
        tuple(shown + hidden),
        TIME_LIMIT_S,
        MEMORY_LIMIT_MB,
        "json" if function else checker_for(statement),
        difficulty=record.text("difficulty", "") or None,
        tags=tuple(filter(None, [record.text("platform", "")])),
        source="livecodebench",
        starter_code=record.text("starter_code", "") or None,
        function=function,
    )
    return Parsed(problem, date)


LCB = Format("lcb", 1, parse)


def release_files(source: str, files: list[Path], release: str) -> list[Path]:
    """The files of a release: `v3` or `release_v3` is all up to the third, `v3_only` and `v2_v4` parts.

    Numbers are those in the files' names; `test.jsonl` is the first. `latest` is all of them.
    """
    found = re.fullmatch(r"(?:release_)?(?:latest|v(\d+)(?:_(only)|_v(\d+))?)", release)
    if not found:
        raise UserError(
            f"problem source {source!r}: release={release!r}: use v1, v2, ..., v5_v6, v6_only or latest"
        )
    if found[1] is None:
        return files
    last = int(found[3] or found[1])
    first = int(found[1]) if found[2] or found[3] else 1
    numbered = {}
    for file in files:
        name = re.fullmatch(r"test(\d*)", file.stem)
        if name:
            numbered[int(name[1] or 1)] = file
    missing = [number for number in range(first, last + 1) if number not in numbered]
    if missing or last < first:
        names = ", ".join(f"test{number if number > 1 else ''}.jsonl" for number in missing[:3])
        raise UserError(f"problem source {source!r}: release={release!r} needs {names or 'v2_v4, not v4_v2'}")
    return [numbered[number] for number in range(first, last + 1)]
