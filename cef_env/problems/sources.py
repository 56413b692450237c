"""From a source string to a set of problems.

    builtin                     the built-in suite, all splits in turn
    builtin:hard?count=96&seed=1
    jsonl:PATH                  problems written by `cef_env.problems.jsonl.write`

A `ProblemSet` or a list of `Problem` is a source, too. Each loader is imported only when it is used.
"""

import re
from collections.abc import Callable, Iterable
from urllib.parse import parse_qsl

from cef_env.errors import UserError
from cef_env.problems.problem_set import ProblemSet
from cef_env.problems.types import Problem

Source = str | ProblemSet | Iterable[Problem]


def load(source: Source) -> ProblemSet:
    """The problems of `source`; `UserError` names the part of it that is wrong and the choices."""
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
    if scheme not in _LOADERS:
        raise UserError(f"problem source {source!r}: unknown scheme {scheme!r}; use {', '.join(_LOADERS)}")
    return _LOADERS[scheme](source, rest)


def _builtin(source: str, rest: str) -> ProblemSet:
    from cef_env.problems import builtin

    split, _, query = rest.partition("?")
    if split and split not in builtin.SPLITS:
        choices = ", ".join(builtin.SPLITS)
        raise UserError(f"problem source {source!r}: unknown split {split!r}; choose one of {choices}")
    options = {"count": 200, "seed": 0}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in options:
            raise UserError(f"problem source {source!r}: unknown option {name!r}; use count, seed")
        if not value.isdecimal():
            raise UserError(f"problem source {source!r}: {name}={value!r} must be a whole number")
        options[name] = int(value)
    return builtin.load(split or None, **options)


def _jsonl(source: str, rest: str) -> ProblemSet:
    from cef_env.problems import jsonl

    if not rest:
        raise UserError(f"problem source {source!r}: give the file, as in jsonl:PATH")
    return jsonl.read(rest)


_LOADERS: dict[str, Callable[[str, str], ProblemSet]] = {"builtin": _builtin, "jsonl": _jsonl}
