"""`cef report`: what a run found, as tables, figures and one page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from cef_env.commands.console import console
from cef_env.errors import UserError


def report(run: Annotated[Path, typer.Argument(help="A run directory of `cef reproduce`.")]) -> None:
    """Writes summary, figures and report of a run again."""
    from cef_env.experiment import write_run_report
    from cef_env.training import Config

    path = run / "config.json"
    if not path.is_file():
        raise UserError(f"{str(run)!r} is no run directory (no config.json); give the --out of cef reproduce")
    if not (run / "sweep" / "manifest.json").is_file():
        raise UserError(f"the sweep of {str(run)!r} is not done; run cef reproduce --out {run} first")
    show_run(run, write_run_report(run, Config.model_validate_json(path.read_text())))


def show_run(out: Path, page: Path) -> None:
    """The tables of a finished run, and where its report is."""
    from cef_env.eval import read_samples
    from cef_env.eval.analysis import analyse
    from cef_env.eval.table import claims_table, outcome_table

    splits = analyse(read_samples(out / "sweep" / "samples.jsonl"))
    for split in splits.values():
        console.print(outcome_table(split))
    console.print(claims_table(splits))
    console.print(f"Report: {escape(str(page))}", soft_wrap=True)
