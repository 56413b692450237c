"""How the outputs of a package's problem are validated: flags of the default validator, or a program.

The default validator of the format compares tokens without regard to case; `space_change_sensitive` becomes
the line checker, which still ignores whitespace at the ends of lines. Custom validators become checker
programs of the style `icpc`, when they are one C++ or Python program; C++ of several files is joined.
"""

import re
import shlex
from dataclasses import dataclass

from cef_env.problems.fields import Record, Skip
from cef_env.problems.icpc_files import PackageFiles
from cef_env.problems.types import CheckerProgram

CPP = (".cpp", ".cc", ".cxx", ".c++", ".C")
HEADERS = (".h", ".hpp", ".hh")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"[^\n]*$', re.MULTILINE)
_FLOAT = ("float_tolerance", "float_relative_tolerance", "float_absolute_tolerance")


@dataclass(frozen=True, slots=True)
class Validation:
    """The checker of a problem: a spec, or a program."""

    checker: str = ""
    program: CheckerProgram | None = None


def arguments_of(record: Record, name: str) -> tuple[str, ...]:
    """Arguments, as a text (legacy) or a list of texts (2025-09)."""
    value = record.data.get(name)
    if value is None:
        return ()
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise record.error(name, f"has unbalanced quotes ({error})") from error
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return tuple(str(item) for item in value)
    raise record.error(name, "must be a text or a list of texts")


def validation(files: PackageFiles, where: Record, custom: bool, flags: tuple[str, ...]) -> Validation:
    """From the flags of all tests and the validator in the package.

    Args:
        custom: problem.yaml asks for a custom validator (legacy); in 2025-09 its folder decides.
    """
    names = files.names("output_validator") or (files.names("output_validators") if custom else [])
    if not names:
        if custom:
            raise where.error("validation", "asks for a custom validator, but output_validators holds none")
        return Validation(default_checker(where, flags))
    return Validation(program=_program(files, names, flags))


def default_checker(where: Record, flags: tuple[str, ...]) -> str:
    """The checker that does what the default validator does with these flags."""
    sensitive = {"case_sensitive": False, "space_change_sensitive": False}
    tolerance = {"abs": "", "rel": ""}
    rest = list(flags)
    while rest:
        flag = rest.pop(0)
        if flag in sensitive:
            sensitive[flag] = True
        elif flag in _FLOAT:
            value = rest.pop(0) if rest else ""
            if not re.fullmatch(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", value):
                raise where.error("validator_flags", f"needs a number after {flag}, not {value[:40]!r}")
            for name in ("abs", "rel") if flag == _FLOAT[0] else (flag[6:9],):
                tolerance[name] = value
        else:
            raise where.error("validator_flags", f"has the unknown flag {flag[:40]!r}")
    options = [f"{name}={value}" for name, value in tolerance.items() if value]
    name = "floats" if options else "lines" if sensitive["space_change_sensitive"] else "tokens"
    if not sensitive["case_sensitive"]:
        options.append("case=ignore")
    return name + ("?" + "&".join(options) if options else "")


def _program(files: PackageFiles, names: list[str], flags: tuple[str, ...]) -> CheckerProgram:
    """The one program among these files; `Skip` for anything that is not one C++ or Python program."""
    code = [name for name in names if name.endswith((*CPP, ".py"))]
    folders = {name.rpartition("/")[0] for name in names}
    scripts = [name for name in names if name.endswith(("/build", "/run"))]
    if not code or len(folders) > 1 or scripts:
        raise Skip("unknown checker")
    headers = [name for name in names if name.endswith(HEADERS)]
    if len(code) > 1 and (not headers or any(name.endswith(".py") for name in code)):
        raise Skip("unknown checker")  # several validators, or a Python package
    if code[0].endswith(".py"):
        return CheckerProgram("icpc", files.text(code[0]), "python", flags)
    texts = {name.rpartition("/")[2]: files.text(name) for name in headers}
    seen: set[str] = set()
    source = "\n".join(_joined(files.text(name), texts, seen) for name in code)
    return CheckerProgram("icpc", source, "cpp17", flags)


def _joined(text: str, headers: dict[str, str], seen: set[str]) -> str:
    """C++ text with the package's own headers in the place where they are first included."""

    def include(match: re.Match[str]) -> str:
        name = match[1]
        if name not in headers or name == "testlib.h":
            return match[0]
        if name in seen:
            return ""
        seen.add(name)
        return _joined(headers[name], headers, seen)

    return _INCLUDE.sub(include, text)
