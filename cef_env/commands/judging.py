"""`cef doctor` and `cef judge`: what this machine can do, and the verdicts of one program."""

from pathlib import Path
from typing import Annotated

import typer

from cef_env.commands.console import Json, Sandbox, console, errors, print_json
from cef_env.errors import UserError


def doctor(
    rounds: Annotated[int, typer.Option(help="How often the self-test runs each program.")] = 3,
    quick: Annotated[bool, typer.Option(help="One round over a third of the programs.")] = False,
    sandbox: Sandbox = "auto",
    seed: Annotated[int, typer.Option(help="Of the order of the programs.")] = 0,
    as_json: Json = False,
) -> None:
    """What this machine can do: isolation, self-test with labelled programs, speed; else status 3."""
    from cef_env.doctor import examine, show
    from cef_env.ui import Reporter

    checkup = examine(sandbox, 1 if quick else rounds, quick, seed, Reporter(errors))
    print_json(checkup.to_json()) if as_json else console.print(show(checkup))
    if not checkup.well:
        raise typer.Exit(3)


def judge(
    problem: Annotated[str, typer.Argument(help="SOURCE#ID, such as builtin:hard#ID")],
    program: Annotated[Path, typer.Argument(help="A .py, .cpp, .cc or .cxx file.")],
    coverage: Annotated[str, typer.Option(help="k, or inf for all tests.")] = "inf",
    exhaustive: Annotated[bool, typer.Option(help="Run every test, also after a failure.")] = False,
    language: Annotated[str | None, typer.Option(help="python, cpp17, cpp20; by default by suffix.")] = None,
    sandbox: Sandbox = "auto",
    speed_factor: Annotated[
        float | None, typer.Option(help="Multiplies time limits; by default CEF_SPEED_FACTOR, else 1.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Judges one program: a verdict for each test, the outcome, R_k for every k."""
    from cef_env.judge import Judge
    from cef_env.judge.languages import parse_language
    from cef_env.judge.table import Witness, show, to_json
    from cef_env.problems import load, parse_coverage

    source, mark, id_ = problem.rpartition("#")
    if not mark:
        raise UserError(f"problem {problem!r}: name it SOURCE#ID; `cef problems list SOURCE` shows ids")
    text = _read(program)
    spoken = parse_language(language or _language_of(program))
    item = load(source).get(id_)
    witness = Witness(item)
    with Judge(workers=1, sandbox=sandbox, speed_factor=speed_factor) as instrument:
        result = instrument.run(
            item, text, parse_coverage(coverage), exhaustive, language=spoken, watch=witness.watch
        )
    if as_json:
        print_json(to_json(item, result, witness.difference))
    else:
        console.print(show(item, result, witness.difference))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()  # not as text: line ends are the program's own
    except OSError as error:
        raise UserError(f"file {str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"file {str(path)!r} cannot be read as text: {error}") from error


def _language_of(path: Path) -> str:
    suffixes = {".py": "python", ".cpp": "cpp17", ".cc": "cpp17", ".cxx": "cpp17"}
    if path.suffix not in suffixes:
        raise UserError(f"file {str(path)!r}: its suffix names no language; add --language python or cpp17")
    return suffixes[path.suffix]
