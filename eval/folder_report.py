"""From folders to pages: the report of a folder of `cef eval`, and a run of a comparison.

Command: `cef report DIR`, `cef report DIR DIR...`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.eval.analysis import analyse
from cef_env.eval.comparison import Result
from cef_env.eval.plan import FILE, read_plan
from cef_env.eval.reader import read_answers
from cef_env.eval.report import write_report
from cef_env.eval.tables import read_tables
from cef_env.files import read_json
from cef_env.problems import Problem, load


def write_folder_report(folder: Path, out: Path | None = None) -> Path:
    """Summary, figures and page of a complete sweep; returns the page's path.

    `out`: by default `folder/report`. Statements are shown where the problems can still be loaded; where not,
    a note says so.
    """
    plan = read_plan(folder)
    tables = read_tables(folder)
    problems: dict[str, Mapping[str, Problem]] = {}
    notes = []
    for split, source in dict(plan.config.get("problems", {})).items():
        try:
            found = load(source)
            wanted = tables[split].problem_ids if split in tables else ()
            problems[split] = {id_: found.get(id_) for id_ in wanted if id_ in found.ids}
        except UserError as error:
            notes.append(f"The statements of {split} are missing: {error}")
    return write_report(
        out or folder / "report",
        tables,
        {
            "seed": plan.config.get("seed", 0),
            "environment": plan.config.get("env", "not recorded"),
            "config": dict(plan.config) | {"members": [member.name for member in plan.members]},
        },
        notes=notes,
        seed=int(plan.config.get("seed", 0)),
        answers=read_answers(folder, list(tables.values())),
        problems=problems,
    )


def read_result(run: Path) -> Result:
    """A run of `cef reproduce` or a folder of `cef eval`, analysed. Raises `UserError` when it is neither."""
    folder = run if (run / FILE).is_file() else run / "sweep"
    if not (folder / FILE).is_file():
        raise UserError(
            f"{str(run)!r} is no run (neither plan.json nor sweep/plan.json); give the --out of cef "
            "reproduce or cef eval"
        )
    config: dict[str, Any] = dict(read_plan(folder).config)
    if folder != run and (run / "config.json").is_file():
        config = read_json(run / "config.json", f"delete {run} and run it again")
        coverages = {k: "inf" if v is None else v for k, v in config.get("coverages", {}).items()}
        config["coverages"] = coverages
    seed = int(config.get("seed", 0))
    return Result(run.resolve().name, analyse(read_tables(folder), seed), config)
