"""The results of a study as files: claims as JSON and Markdown, one page with a frontier for each cell.

Does not compute: see `study_claims.py`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cef_env.eval.claim_lines import VERDICT_WORDS
from cef_env.eval.comparison import overlay_figure
from cef_env.eval.comparisons import member_rates
from cef_env.eval.figures import frontier_figure
from cef_env.eval.intervals import Interval
from cef_env.eval.page import Picture, flatten, picture, render, slug
from cef_env.eval.study_claims import SPLIT, CellData, Finding
from cef_env.eval.summary import clean
from cef_env.eval.sweep import Frontier, frontier
from cef_env.files import write_atomic, write_json

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class StudyResult:
    """What a page of a study shows."""

    name: str
    cells: tuple[CellData, ...]
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]
    """Runs that are not done."""


def write_study(out: Path, result: StudyResult, manifest: Mapping[str, Any]) -> Path:
    """Writes everything into `out`; returns the page."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "claims.json", to_json(result))
    write_json(out / "manifest.json", clean(dict(manifest)))
    write_atomic(out / "claims.md", to_markdown(result))
    found = {cell.name: frontier(cell.sweep, bootstrap=cell.bootstrap) for cell in result.cells}
    page = render(
        "study.html.j2",
        ["theme.js"],
        title="The paper in miniature, all of it",
        result=result,
        split=SPLIT,
        overlay=_overlay(found, out / "figures"),
        pictures={cell.name: _picture(cell, found[cell.name], out / "figures") for cell in result.cells},
        points={cell.name: found[cell.name].points for cell in result.cells},
        beside={
            cell.name: member_rates(cell.beside, cell.bootstrap) if cell.variants else ()
            for cell in result.cells
        },
        made=flatten(clean({k: v for k, v in manifest.items() if k not in ("stages", "study")})),
        config=flatten(clean(dict(manifest["study"]))),
    )
    write_atomic(out / "report.html", page)
    return out / "report.html"


def _overlay(found: Mapping[str, Frontier], figures_to: Path) -> Picture:
    caption = (
        "The frontier of every cell, its seeds together. One mark for each alpha in [-0.5, 1.5]; filled: "
        "trained or between; hollow: extrapolated. Bars: 95% intervals over problems and seeds."
    )
    ranks = {name: i for i, name in enumerate(found)}
    return picture("frontiers", caption, lambda narrow: overlay_figure(found, ranks, narrow), figures_to)


def _picture(cell: CellData, found: Frontier, figures_to: Path) -> Picture:
    beside = member_rates(cell.beside, cell.bootstrap) if cell.variants else ()
    seeds = f"{len(cell.seeds)} seeds" if len(cell.seeds) > 1 else "1 seed"
    caption = (
        f"{cell.name}, {seeds}. Each mark is one alpha, towards the origin is better; crosses: the "
        "warm start and further RL runs. Bars: 95% intervals over problems and seeds."
    )
    draw = lambda narrow: frontier_figure(found, beside, narrow, "other checkpoints")  # noqa: E731
    return picture(slug(cell.name), caption, draw, figures_to)


def to_json(result: StudyResult) -> dict[str, Any]:
    """Everything that README and documentation quote."""
    return {
        "study": result.name,
        "missing": list(result.missing),
        "cells": {
            cell.name: {
                "setting": cell.setting,
                "parameters": cell.parameters,
                "seeds": list(cell.seeds),
                "problems": cell.bootstrap.problems,
                "answers": int(cell.sweep.n.min()),
            }
            for cell in result.cells
        },
        "claims": [
            {
                "letter": finding.letter,
                "title": finding.title,
                "paper": finding.paper,
                "held": finding.held,
                "reason": finding.reason,
                "rows": [
                    {
                        "cell": row.cell,
                        "name": row.name,
                        "value": _number(row.value.value),
                        "low": _number(row.value.low),
                        "high": _number(row.value.high),
                        "by_seed": [_number(x) for x in row.by_seed],
                        "held": row.held,
                        "reason": row.reason,
                    }
                    for row in finding.rows
                ],
            }
            for finding in result.findings
        ],
    }


def claims_table(found: Mapping[str, Any]) -> "Table":
    """For a terminal: one row per claim and cell, with the first number of each."""
    from rich.table import Table

    table = Table(title=f"Claims, study {found['study']}")
    for column in ("claim", "cell", "here", "estimate, 95% interval", "measured"):
        table.add_column(column)
    for claim in found["claims"]:
        cells: set[str] = set()
        for row in claim["rows"]:
            if row["cell"] in cells:
                continue
            title = "" if cells else f"({claim['letter']}) {claim['title']}"
            cells.add(row["cell"])
            value, low, high = (math.nan if row[k] is None else row[k] for k in ("value", "low", "high"))
            table.add_row(
                title, row["cell"], VERDICT_WORDS[row["held"]], _text(Interval(value, low, high)), row["name"]
            )
        if not claim["rows"]:
            table.add_row(
                f"({claim['letter']}) {claim['title']}",
                "",
                VERDICT_WORDS[claim["held"]],
                "–",
                claim["reason"],
            )
    return table


def _number(x: float) -> float | None:
    return None if math.isnan(x) else round(x, 4)


def to_markdown(result: StudyResult) -> str:
    """The table of claims."""
    lines = [f"# Claims, study {result.name}", ""]
    if result.missing:
        lines += [f"Not done yet: {', '.join(result.missing)}.", ""]
    lines += [
        "| cell | setting | parameters | seeds | problems | answers to each |",
        "|---|---|---|---|---|---|",
    ]
    for name, cell in to_json(result)["cells"].items():
        seeds = ", ".join(map(str, cell["seeds"]))
        lines.append(
            f"| {name} | {cell['setting'].replace('_', ' ')} | {cell['parameters'] / 1e6:.2f} M | {seeds} | "
            f"{cell['problems']} {SPLIT} | {cell['answers']} |"
        )
    for finding in result.findings:
        verdict = VERDICT_WORDS[finding.held]
        why = f" ({finding.reason})" if finding.reason else ""
        lines += ["", f"## ({finding.letter}) {finding.title}: {verdict}{why}", "", finding.paper, ""]
        if finding.rows:
            lines += [
                "| cell | measured | estimate, 95% interval | by seed | here |",
                "|---|---|---|---|---|",
            ]
        for row in finding.rows:
            seeds = ", ".join(f"{x:.3f}" for x in row.by_seed)
            reason = f": {row.reason}" if row.reason else ""
            here = f"{VERDICT_WORDS[row.held]}{reason}"
            lines.append(f"| {row.cell} | {row.name} | {_text(row.value)} | {seeds} | {here} |")
    return "\n".join(lines) + "\n"


def _text(x: Interval) -> str:
    if math.isnan(x.value):
        return "–"
    return f"{x.value:.3f} [{x.low:.3f}, {x.high:.3f}]" if x.known else f"{x.value:.3f}"
