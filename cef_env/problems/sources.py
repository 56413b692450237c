"""From a source string to a set of problems.

    builtin                     the built-in suite, all splits in turn
    builtin:hard?count=96&seed=1    ; &graded=1 for tests of which every coverage asks for something else
    jsonl:PATH                  problems written by `cef_env.problems.jsonl.write`
    lcb:PATH                    LiveCodeBench; ?release=v6&after=2024-08-01&before=...&difficulty=hard
    codecontests+:PATH          CodeContests+ with its checkers
    codecontests:PATH           CodeContests
    taco:PATH, apps:PATH        TACO, APPS
    icpc:PATH                   an ICPC/Kattis problem package, or a folder of packages

PATH is a file, a folder of files (JSON lines, Parquet, Arrow), or the name of a data set on the Hugging Face
hub where `datasets` is installed. Every source but `builtin` knows ?difficulty=..., ?after=..., ?before=...
and ?skip_bad=yes; those of records also ?split=... and ?config=... A `ProblemSet` or a list of `Problem` is
a source, too. Each loader is imported only when it is used.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl

from cef_env.errors import UserError
from cef_env.problems.index import Format, Progress
from cef_env.problems.problem_set import ProblemSet
from cef_env.problems.types import Problem

Source = str | ProblemSet | Iterable[Problem]


def load(source: Source, skip_bad: bool = False, progress: Progress | None = None) -> ProblemSet:
    """The problems of `source`; `UserError` names the part of it that is wrong and the choices.

    Args:
        skip_bad: leave broken records out and count them in `ProblemSet.skipped`, instead of stopping at the
            first.
        progress: called while a source is read for the first time.
    """
    if isinstance(source, ProblemSet):
        return source
    if not isinstance(source, str):
        problems = list(source) if isinstance(source, Iterable) else [source]
        for problem in problems:
            if not isinstance(problem, Problem):
                kind = type(problem).__name__
                raise UserError(f"problems: found {kind}; use a source string or a list of Problem")
        return ProblemSet.of(problems)
    match = re.fullmatch(r"([^:?]*)(?::(.*)|(\?.*))?", source, re.DOTALL)
    scheme, rest = (match[1], match[2] or match[3] or "") if match else (source, "")
    if scheme == "builtin":
        return _builtin(source, rest)
    if scheme not in _FORMATS:
        choices = ", ".join(["builtin", *_FORMATS])
        if source.endswith(".jsonl"):
            choices = f"jsonl:{source}, or one of {choices}"
        raise UserError(f"problem source {source!r}: unknown scheme {scheme!r}; use {choices}")
    return _local(source, scheme, rest, skip_bad, progress)


def _builtin(source: str, rest: str) -> ProblemSet:
    from cef_env.problems import builtin

    split, _, query = rest.partition("?")
    if split and split not in builtin.SPLITS:
        choices = ", ".join(builtin.SPLITS)
        raise UserError(f"problem source {source!r}: unknown split {split!r}; choose one of {choices}")
    options = {"count": 200, "seed": 0, "graded": 0}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in options:
            raise UserError(f"problem source {source!r}: unknown option {name!r}; use count, seed, graded")
        if not value.isdecimal():
            raise UserError(f"problem source {source!r}: {name}={value!r} must be a whole number")
        options[name] = int(value)
    return builtin.load(split or None, options["count"], options["seed"], bool(options["graded"]))


_FORMATS = ("jsonl", "lcb", "codecontests+", "codecontests", "taco", "apps", "icpc")


def _local(source: str, scheme: str, rest: str, skip_bad: bool, progress: Progress | None) -> ProblemSet:
    """A source of records or packages on this machine."""
    from cef_env.problems import collection

    known = (*collection.OPTIONS, *(["release"] if scheme == "lcb" else []))
    path, options = _split(source, scheme, rest, known)
    skip_bad = skip_bad or options.get("skip_bad", "no") in ("yes", "1", "true")
    selection = collection.Selection.of(source, options)
    if scheme == "icpc":
        from cef_env.problems.icpc import ICPC, packages

        return collection.collect(source, packages(source, path), ICPC, selection, skip_bad, progress)
    files = collection.data_files(source, path, options)
    if "release" in options:
        from cef_env.problems.lcb import release_files

        files = release_files(source, files, options["release"])
    remedy = "choose one split with ?split=..., or remove one" if len(files) > 1 else "remove one"
    form = _record_format(scheme)
    return collection.collect(source, files, form, selection, skip_bad, progress, remedy)


def _record_format(scheme: str) -> Format:
    if scheme == "jsonl":
        from cef_env.problems.jsonl import JSONL

        return JSONL
    if scheme == "lcb":
        from cef_env.problems.lcb import LCB

        return LCB
    if scheme in ("apps", "taco"):
        from cef_env.problems import apps

        return apps.APPS if scheme == "apps" else apps.TACO
    from cef_env.problems import codecontests

    return codecontests.CODECONTESTS if scheme == "codecontests" else codecontests.CODECONTESTS_PLUS


def _split(source: str, scheme: str, rest: str, known: Iterable[str]) -> tuple[Path, dict[str, str]]:
    """Path and options of a source; a path may hold a question mark when it exists as it is."""
    text, mark, query = rest.rpartition("?")
    if not mark or Path(rest).exists():
        text, query = rest, ""
    if not text or "\0" in text:
        raise UserError(f"problem source {source!r}: give the file or folder, as in {scheme}:PATH")
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise UserError(f"problem source {source!r}: unknown option {name!r}; use {', '.join(known)}")
        options[name] = value
    return Path(text).expanduser(), options
