"""The report of a folder of `cef eval`. Command: `cef report DIR`."""

from pathlib import Path

from cef_env.eval.plan import read_plan
from cef_env.eval.report import write_report
from cef_env.eval.tables import read_tables


def write_folder_report(folder: Path) -> Path:
    """Summary, figures and page of a complete sweep, into `folder/report`; returns the page's path."""
    plan = read_plan(folder)
    tables = read_tables(folder)
    seed = int(plan.config.get("seed", 0))
    return write_report(folder / "report", tables, {"sweep": dict(plan.config)}, seed=seed)
