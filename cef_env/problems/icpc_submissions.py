"""The submissions of a package as labelled programs: what folder and submissions.yaml expect of them."""

import re
from collections import Counter
from functools import cache
from itertools import product

from cef_env.problems.fields import Record, shown
from cef_env.problems.icpc_files import PackageFiles
from cef_env.problems.icpc_validation import CPP
from cef_env.problems.languages import KNOWN, printable
from cef_env.problems.types import Submission

VERDICTS = {
    "AC": ("accepted",),
    "WA": ("wrong_answer", "output_limit"),
    "TLE": ("time_limit",),
    "RTE": ("runtime_error", "memory_limit"),
}
"""Verdicts of the format -> those of `cef_env.judge.Verdict`: it has none for memory and output."""
OUTCOMES = {"WA": "correctness_failure", "RTE": "correctness_failure", "TLE": "optimization_failure"}

_ALL = ("AC", "WA", "TLE", "RTE")
Rule = tuple[tuple[str, ...], tuple[str, ...]]
"""(permitted, required) in the format's verdicts."""
FOLDERS: dict[str, Rule] = {
    "accepted": (("AC",), _ALL),
    "rejected": (_ALL, ("WA", "TLE", "RTE")),
    "wrong_answer": (("AC", "WA"), ("WA",)),
    "time_limit_exceeded": (("AC", "TLE"), ("TLE",)),
    "run_time_error": (("AC", "RTE"), ("RTE",)),
    "brute_force": (("AC", "RTE", "TLE"), ("RTE", "TLE")),
}
_TAG = re.compile(r"@EXPECTED_RESULTS@:\s*([^\r\n*]*)")
_TAG_VERDICTS = {
    "CORRECT": "AC",
    "ACCEPTED": "AC",
    "WRONG-ANSWER": "WA",
    "WRONG_ANSWER": "WA",
    "NO-OUTPUT": "WA",
    "TIMELIMIT": "TLE",
    "TIME_LIMIT_EXCEEDED": "TLE",
    "RUN-ERROR": "RTE",
    "RUN_TIME_ERROR": "RTE",
}
_LANGUAGES = {**dict.fromkeys(CPP, "cpp17"), ".py": "python", ".py3": "python"}


def labelled_programs(files: PackageFiles, notes: Counter[str]) -> list[Submission]:
    """Every submission in a language that can be judged; what is left out is counted in `notes`."""
    settings = files.settings("submissions/submissions.yaml")
    groups: dict[tuple[str, str], list[str]] = {}
    for name in files.names("submissions"):
        parts = name.split("/")[1:]
        if len(parts) > 1:
            groups.setdefault((parts[0], parts[1]), []).append(name)
    found: list[Submission] = []
    for (folder, program), names in groups.items():
        matching = [
            Record(value, settings.where, str(glob))
            for glob, value in settings.data.items()
            if glob != folder and _matches(str(glob), f"{folder}/{program}")
        ]
        code = _entry(files, names, matching, notes)
        if code is None:
            continue
        language, text = code
        rule = _combined(_rule_of_folder(settings, folder) or _tagged(text), matching)
        permitted, required = ((), ()) if rule is None else rule
        outcomes = _outcomes(permitted, required)
        if set(permitted) <= set(required):
            required = ()  # whatever is permitted is enough
        found.append(
            Submission(
                folder,
                text,
                outcomes,
                language,
                tuple(verdict for name in permitted for verdict in VERDICTS[name]),
                tuple(verdict for name in required for verdict in VERDICTS[name]),
            )
        )
    return found


def _entry(
    files: PackageFiles, names: list[str], matching: list[Record], notes: Counter[str]
) -> tuple[str, str] | None:
    """(language, source) of a submission, or None for what cannot be judged."""
    code = [name for name in names if not name.endswith((".md", ".txt", ".yaml"))]
    entry = next((m.text("entrypoint", "") for m in matching if m.data.get("entrypoint")), "")
    if len(code) > 1:
        notes["submissions of several files"] += 1
        return None
    if not code:
        return None
    suffix = re.search(r"\.[^./]*$", code[0])
    named = next((m.text("language", "") for m in matching if m.data.get("language")), "")
    known = KNOWN.get(named.lower()) if named else _LANGUAGES.get(suffix[0] if suffix else "")
    text = files.text(code[0])
    if known == "python" and re.match(r"#!.*python2", text):
        known, named = None, "python2"
    if known is None:
        notes[f"submissions in {printable(named or (suffix[0] if suffix else entry) or 'no language')}"] += 1
        return None
    return known, text


def _rule_of_folder(settings: Record, folder: str) -> Rule | None:
    """What a folder asks for: by default, or as submissions.yaml replaces it."""
    rule = FOLDERS.get(folder)
    own = settings.data.get(folder)
    if own is None:
        return rule
    default = rule or (_ALL, _ALL)
    record = Record(own, settings.where, folder)
    return _verdicts(record, "permitted") or default[0], _verdicts(record, "required") or default[1]


def _tagged(program: str) -> Rule | None:
    """What a comment of the program asks for, where its folder says nothing (DOMjudge)."""
    found = _TAG.search(program)
    names = [name.strip().upper() for name in found[1].split(",")] if found else []
    verdicts = tuple(_TAG_VERDICTS[name] for name in names if name in _TAG_VERDICTS)
    if not verdicts or len(verdicts) < len(names):
        return None
    return tuple(dict.fromkeys(("AC", *verdicts))), verdicts


def _combined(rule: Rule | None, matching: list[Record]) -> Rule | None:
    """All rules at once: verdicts must be permitted by each. Of several `required` the narrowest stays."""
    for record in matching:
        permitted, required = _verdicts(record, "permitted"), _verdicts(record, "required")
        if not permitted and not required:
            continue
        old = rule or (_ALL, _ALL)
        allowed = tuple(v for v in old[0] if v in (permitted or _ALL))
        needed = min((old[1], required or old[1]), key=len) if required else old[1]
        rule = allowed, needed
    return rule


def _verdicts(record: Record, name: str) -> tuple[str, ...]:
    values = record.items(name, [])
    for value in values:
        if not isinstance(value, str) or value not in _ALL:
            raise record.error(name, f"has the unknown verdict {shown(value)}; use {', '.join(_ALL)}")
    return tuple(values)


def _outcomes(permitted: tuple[str, ...], required: tuple[str, ...]) -> tuple[str, ...]:
    """The outcomes of such a program; none when everything is permitted and nothing asked."""
    if not permitted or set(required) >= set(_ALL) <= set(permitted):
        return ()
    if permitted == ("AC",):
        return ("correct",)
    failing = [v for v in (permitted if "AC" in required else required) if v != "AC" and v in permitted]
    outcomes = dict.fromkeys(OUTCOMES[v] for v in failing)
    return (*(["correct"] if "AC" in required else []), *outcomes)


def _matches(glob: str, path: str) -> bool:
    """Whether a glob matches a submission or the folder it is in. `*` does not match `/`; braces expand."""
    return any(
        _pattern(form).fullmatch(path) or _pattern(form).fullmatch(path.split("/")[0])
        for form in _braces(glob.strip("/"))
    )


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile("".join("[^/]*" if c == "*" else "[^/]" if c == "?" else re.escape(c) for c in glob))


def _braces(glob: str) -> list[str]:
    """`{a,b}.{c,d}` -> the four texts; at most 1000 of them."""
    pieces = re.split(r"\{([^{}]*)\}", glob)
    choices = [piece.split(",") if odd % 2 else [piece] for odd, piece in enumerate(pieces)]
    forms = product(*choices)
    return ["".join(form) for _, form in zip(range(1000), forms)]
