"""ICPC/Kattis problem packages, of the legacy form and of 2025-09.

    icpc:PATH       a package (a folder with problem.yaml) or a folder of packages

Reads problem.yaml, statement, test data, validator flags, custom output validators and the submissions with
what is expected of them. Files are read only where they lie inside the package. Interactive, multi-pass,
submit-answer and scoring problems are skipped, and so are those whose tests need files or arguments.
"""

import configparser
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.problems.fields import Record, Skip, require_readable, shown
from cef_env.problems.icpc_files import PackageFiles
from cef_env.problems.icpc_submissions import labelled_programs
from cef_env.problems.icpc_validation import arguments_of, validation
from cef_env.problems.index import Format, Parsed
from cef_env.problems.records import RecordFile, Scanned
from cef_env.problems.types import Problem, TestCase

DEFAULT_TIME_LIMIT_S = 2.0
"""Used, and counted in `ProblemSet.skipped`, where a package names no limit: systems derive one then."""
DEFAULT_MEMORY_LIMIT_MB = 2048
"""The typical system default of both forms."""
NO_TIME_LIMIT = f"no time limit in the package: {DEFAULT_TIME_LIMIT_S:g} s are used (not skipped)"
_TYPES = {"pass-fail", "scoring", "multi-pass", "interactive", "submit-answer"}


class Package:
    """A package as a file with one record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> str:
        return PackageFiles(self.path).stamp()

    def size(self) -> int:
        return PackageFiles(self.path).size()

    def where(self, number: int) -> str:
        return str(self.path)

    def scan(self) -> Iterator[Scanned]:
        yield 0, 1, {"package": str(self.path)}, self.size()

    def fetch(self, start: int, number: int) -> dict[str, Any]:
        return {"package": str(self.path)}


def packages(source: str, path: Path) -> list[RecordFile]:
    """The package at a path, or all packages directly in it, by name."""
    if not path.is_dir():
        state = "is a file" if path.exists() else "does not exist"
        raise UserError(f"problem source {source!r}: {path} {state}; give a folder with problem.yaml")
    if (path / "problem.yaml").exists():
        return [Package(path)]
    found = sorted(child for child in path.iterdir() if (child / "problem.yaml").is_file())
    if not found:
        raise UserError(f"problem source {source!r}: no problem.yaml in {path} or in the folders in it")
    return [Package(child) for child in found]


def parse(record: Record, number: int) -> Parsed:
    """The problem of one package."""
    root = Path(record.text("package"))
    files = PackageFiles(root)
    about = files.settings("problem.yaml")
    custom = _refuse_other_types(files, about)
    notes: Counter[str] = Counter()
    tests, flags = _tests(files, about)
    check = validation(files, about, custom, flags)
    title = _title(about) or root.name
    statement = _statement(files, about, title, tests)
    time_limit = _time_limit(files, about)
    if time_limit is None:
        notes[NO_TIME_LIMIT] += 1
    source = about.data.get("source")
    problem = Problem(
        root.resolve().name,
        title,
        statement,
        tuple(tests),
        time_limit or DEFAULT_TIME_LIMIT_S,
        int(about.inner("limits").number("memory") or DEFAULT_MEMORY_LIMIT_MB),
        check.checker,
        tags=_keywords(about),
        source=source if isinstance(source, str) and source else "icpc",
        submissions=tuple(labelled_programs(files, notes)),
        checker_program=check.program,
    )
    return Parsed(problem, notes=dict(notes))


def _refuse_other_types(files: PackageFiles, about: Record) -> bool:
    """`Skip` for problems that cannot be judged here; whether problem.yaml asks for a custom validator."""
    types = about.data.get("type") or "pass-fail"
    types = types if isinstance(types, list) else [types]
    for name in types:
        if not isinstance(name, str) or name not in _TYPES:
            raise about.error("type", f"has the unknown value {shown(name)}")
        if name != "pass-fail":
            raise Skip(name)
    words = about.text("validation", "default").split()
    if "interactive" in words or "multipass" in words or "multi-pass" in words:
        raise Skip("interactive" if "interactive" in words else "multi-pass")
    if "score" in words:
        raise Skip("scoring")
    if words[:1] not in (["default"], ["custom"]):
        raise about.error("validation", f"must be default or custom, not {' '.join(words)[:40]!r}")
    if files.names("include"):
        raise Skip("code that is included with submissions")
    return words[0] == "custom"


def _tests(files: PackageFiles, about: Record) -> tuple[list[TestCase], tuple[str, ...]]:
    """The tests of sample and secret data, and the validator flags that they share."""
    tests: list[TestCase] = []
    common = arguments_of(about, "validator_flags")
    all_flags: set[tuple[str, ...]] = set()
    groups: dict[str, tuple[str, ...]] = {"data": ()}
    names = [*files.names("data/sample"), *files.names("data/secret")]
    present = set(names)
    for name in names:
        if ".files/" in name:
            raise Skip("tests with files or arguments")
        if not name.endswith(".in"):
            continue
        stem = name[: -len(".in")]
        if f"{stem}.ans" not in present:
            raise UserError(f"{files.root / stem}.ans: is missing, but there is {Path(name).name}")
        flags = _group_flags(files, stem.rpartition("/")[0], groups)
        if f"{stem}.yaml" in present:
            flags = _flags(files.settings(f"{stem}.yaml"), flags)
        all_flags.add(common + flags)
        given, answer = (
            files.data(path).decode("utf-8", "surrogateescape") for path in (name, f"{stem}.ans")
        )
        tests.append(TestCase(given, answer, name.startswith("data/sample/")))
    if not tests:
        raise Skip("no tests")
    if len(all_flags) > 1:
        raise Skip("validator flags that differ between tests")
    return tests, all_flags.pop()


def _group_flags(files: PackageFiles, folder: str, known: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The flags of a folder of tests: its own or those of the folder around it."""
    if folder not in known:
        flags = _group_flags(files, folder.rpartition("/")[0] or "data", known)
        for name in ("testdata.yaml", "test_group.yaml"):
            flags = _flags(files.settings(f"{folder}/{name}"), flags)
        known[folder] = flags
    return known[folder]


def _flags(settings: Record, inherited: tuple[str, ...]) -> tuple[str, ...]:
    if settings.data.get("args"):
        raise Skip("tests with files or arguments")
    for name in ("output_validator_args", "output_validator_flags"):
        if name in settings.data:
            return arguments_of(settings, name)
    return inherited


def _title(about: Record) -> str:
    name = about.data.get("name")
    if isinstance(name, dict):
        name = name.get("en") or next(iter(name.values()), "")
    if name is not None and not isinstance(name, str):
        raise about.error("name", "must be a text, or texts by language")
    return name or ""


def _keywords(about: Record) -> tuple[str, ...]:
    words = about.data.get("keywords") or []
    return tuple(words.split() if isinstance(words, str) else [w for w in words if isinstance(w, str) and w])


def _time_limit(files: PackageFiles, about: Record) -> float | None:
    """Seconds, from problem.yaml or from where older systems keep them."""
    limits = about.inner("limits")
    named = limits.number("time_limit") or about.number("time_limit")
    if named is not None:
        return named
    for name in (".timelimit", "domjudge-problem.ini"):
        if not files.exists(name):
            continue
        text = files.text(name).strip()
        if name.endswith(".ini"):
            parser = configparser.RawConfigParser(strict=False)
            try:
                parser.read_string(f"[all]\n{text}")
            except configparser.Error as error:
                raise UserError(f"{files.root / name}: not an ini file") from error
            text = parser.get("all", "timelimit", fallback="").strip("\"' ")
        if text:
            try:
                return float(text)
            except ValueError as error:
                raise UserError(f"{files.root / name}: the time limit must be seconds") from error
    return None


_STATEMENT = re.compile(r"(?:problem_statement|statement)/problem(?:\.([A-Za-z-]+))?\.(tex|md)")


def _statement(files: PackageFiles, about: Record, title: str, tests: list[TestCase]) -> str:
    """The statement in English, else in the first language, with the samples after it."""
    names = [*files.names("statement"), *files.names("problem_statement")]
    found = {match[1] or "en": name for name in names if (match := _STATEMENT.fullmatch(name))}
    if not found:
        raise Skip("statement is only a PDF, or missing")
    text = files.text(found.get("en") or found[min(found)])
    text = re.sub(
        r"\\problemname\{[^}]*\}|\{\{(?:next|remaining)samples?\}\}|\\(?:next|remaining)samples?\b", "", text
    )
    constants = {k: v for k, v in about.inner("constants").data.items() if isinstance(v, str | int | float)}
    text = re.sub(
        r"\{\{(\w+)\}\}|\\constant\{(\w+)\}", lambda m: str(constants.get(m[1] or m[2], m[0])), text
    )
    require_readable(text)
    parts = [f"{title}\n", text.strip()]
    samples = [test for test in tests if test.sample]
    for position, test in enumerate(samples, 1):
        parts += [f"\nSample Input {position}\n", test.input.rstrip("\n")]
        parts += [f"\nSample Output {position}\n", test.output.rstrip("\n")]
    return "\n".join(parts) + "\n"


ICPC = Format("icpc", 1, parse)
