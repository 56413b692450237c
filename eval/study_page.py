"""The results of a study as files: claims as JSON and Markdown, one page with a frontier for each cell.

Does not compute: see `study_claims.py`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cef_env.eval.cells import CellData
from cef_env.eval.claim_lines import VERDICT_WORDS
from cef_env.eval.comparison import overlay_figure
from cef_env.eval.comparisons import member_rates
from cef_env.eval.figures import frontier_figure
from cef_env.eval.intervals import Interval
from cef_env.eval.page import Picture, flatten, picture, render, slug
from cef_env.eval.study_claims import Finding
from cef_env.eval.summary import clean
from cef_env.eval.sweep import Frontier, frontier
from cef_env.files import write_atomic, write_json

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class SplitResult:
    """One split of every cell, and what it says of the claims."""

    cells: tuple[CellData, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class StudyResult:
    """What a page of a study shows."""

    name: str
    splits: Mapping[str, SplitResult]
    """The first one leads."""
    missing: tuple[str, ...]
    """Runs that are not done."""


def write_study(out: Path, result: StudyResult, manifest: Mapping[str, Any]) -> Path:
    """Writes everything into `out`; returns the page."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "claims.json", to_json(result))
    write_json(out / "manifest.json", clean(dict(manifest)))
    write_atomic(out / "claims.md", to_markdown(result))
    figures = out / "figures"
    pages = {
        split: _split_page(split, found, figures if i == 0 else None)
        for i, (split, found) in enumerate(result.splits.items())
    }
    page = render(
        "study.html.j2",
        ["theme.js"],
        title="The paper in miniature, all of it",
        result=result,
        pages=pages,
        made=flatten(clean({k: v for k, v in manifest.items() if k not in ("stages", "study")})),
        config=flatten(clean(dict(manifest["study"]))),
    )
    write_atomic(out / "report.html", page)
    return out / "report.html"


def _split_page(split: str, result: SplitResult, figures_to: Path | None) -> dict[str, Any]:
    """Figures and tables of one split."""
    found = {cell.name: frontier(cell.sweep, bootstrap=cell.bootstrap) for cell in result.cells}
    return {
        "overlay": _overlay(split, found, figures_to),
        "pictures": {cell.name: _picture(split, cell, found[cell.name], figures_to) for cell in result.cells},
        "points": {cell.name: found[cell.name].points for cell in result.cells},
        "beside": {
            cell.name: member_rates(cell.beside, cell.bootstrap) if cell.variants else ()
            for cell in result.cells
        },
    }


def _overlay(split: str, found: Mapping[str, Frontier], figures_to: Path | None) -> Picture:
    caption = (
        "The frontier of every cell, its seeds together. One mark for each alpha in [-0.5, 1.5]; filled: "
        "trained or between; hollow: extrapolated. Bars: 95% intervals over problems and seeds."
    )
    ranks = {name: i for i, name in enumerate(found)}
    return picture(
        f"{slug(split)}-frontiers", caption, lambda narrow: overlay_figure(found, ranks, narrow), figures_to
    )


def _picture(split: str, cell: CellData, found: Frontier, figures_to: Path | None) -> Picture:
    beside = member_rates(cell.beside, cell.bootstrap) if cell.variants else ()
    seeds = f"{len(cell.seeds)} seeds" if len(cell.seeds) > 1 else "1 seed"
    caption = (
        f"{cell.name}, {seeds}. Each mark is one alpha, towards the origin is better; crosses: the "
        "warm start and further RL runs. Bars: 95% intervals over problems and seeds."
    )
    draw = lambda narrow: frontier_figure(found, beside, narrow, "other checkpoints")  # noqa: E731
    return picture(f"{slug(split)}-{slug(cell.name)}", caption, draw, figures_to)


def to_json(result: StudyResult) -> dict[str, Any]:
    """Everything that README and documentation quote."""
    return {
        "study": result.name,
        "missing": list(result.missing),
        "splits": {
            split: {
                "cells": {cell.name: _cell_json(cell) for cell in found.cells},
                "claims": [_finding_json(finding) for finding in found.findings],
            }
            for split, found in result.splits.items()
        },
    }


def _cell_json(cell: CellData) -> dict[str, Any]:
    return {
        "setting": cell.setting,
        "parameters": cell.parameters,
        "seeds": list(cell.seeds),
        "problems": cell.bootstrap.problems,
        "answers": int(cell.sweep.n.min()),
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
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


def claims_table(found: Mapping[str, Any]) -> "Table":
    """For a terminal: one row per claim and cell, with the first number of each."""
    from rich.table import Table

    table = Table(title=f"Claims, study {found['study']}")
    for column in ("claim", "cell", "the claim in it", "estimate, 95% interval", "measured"):
        table.add_column(column)
    for claim in next(iter(found["splits"].values()))["claims"]:
        cells: set[str] = set()
        for row in claim["rows"]:
            if row["cell"] in cells:
                continue
            title = "" if cells else f"({claim['letter']}) {claim['title']}"
            cells.add(row["cell"])
            value, low, high = (math.nan if row[k] is None else row[k] for k in ("value", "low", "high"))
            table.add_row(
                title, row["cell"], VERDICT_WORDS[row["held"]], str(Interval(value, low, high)), row["name"]
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
    """The tables of claims."""
    lines = [f"# Claims, study {result.name}", ""]
    if result.missing:
        lines += [f"Not done yet: {', '.join(result.missing)}.", ""]
    for split, found in result.splits.items():
        lines += _markdown_of(split, found)
    return "\n".join(lines).rstrip() + "\n"


def _markdown_of(split: str, result: SplitResult) -> list[str]:
    lines = [
        f"## Split {split}",
        "",
        "| cell | setting | parameters | seeds | problems | answers to each |",
        "|---|---|---|---|---|---|",
    ]
    for cell in result.cells:
        seeds = ", ".join(map(str, cell.seeds))
        lines.append(
            f"| {cell.name} | {cell.setting.replace('_', ' ')} | {cell.parameters / 1e6:.2f} M | {seeds} | "
            f"{cell.bootstrap.problems} | {cell.sweep.n.min()} |"
        )
    for finding in result.findings:
        verdict = VERDICT_WORDS[finding.held]
        why = f" ({finding.reason})" if finding.reason else ""
        lines += ["", f"### ({finding.letter}) {finding.title}: {verdict}{why}", "", finding.paper, ""]
        if finding.rows:
            lines += [
                "| cell | measured | estimate, 95% interval | by seed | the claim in this cell |",
                "|---|---|---|---|---|",
            ]
        for row in finding.rows:
            seeds = ", ".join("–" if math.isnan(x) else f"{x:.3f}" for x in row.by_seed)
            reason = f": {row.reason}" if row.reason else ""
            here = f"{VERDICT_WORDS[row.held]}{reason}"
            lines.append(f"| {row.cell} | {row.name} | {row.value} | {seeds} | {here} |")
    return [*lines, ""]
