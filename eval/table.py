"""Outcome rates over alpha as a table for the terminal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cef_env.eval.analysis import SplitAnalysis
from cef_env.eval.counts import OUTCOMES
from cef_env.eval.intervals import Interval
from cef_env.eval.shape import HIGH, LOW

if TYPE_CHECKING:
    from rich.table import Table


def outcome_table(split: SplitAnalysis) -> "Table":
    """One row per alpha, the trained endpoints in bold; rates with the half width of their 95% interval."""
    from rich.markup import escape
    from rich.table import Table

    counts = split.members
    answers = (
        f"{counts.n.min()}" if counts.n.min() == counts.n.max() else f"{counts.n.min()} to {counts.n.max()}"
    )
    title = f"{counts.split}: {len(counts.problem_ids)} problems, {answers} answers each"
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("alpha", justify="right")
    for outcome in OUTCOMES:
        table.add_column(outcome.value.replace("_", " "), justify="right")
    names = {LOW: "low", HIGH: "high"}
    for point in split.frontier.points:
        name = f"{point.alpha:g}"
        if point.trained:
            name = f"{names[point.alpha]} {name}"
        cells = [cell(point.rates[o]) for o in OUTCOMES]
        table.add_row(name, *cells, style="bold" if point.trained else None)
    for control in split.controls:
        table.add_row(escape(control.member.label), *(cell(control.rates[o]) for o in OUTCOMES))
    if counts.left_out:
        table.caption = "not finished, left out: " + ", ".join(m.name for m in counts.left_out)
    return table


def claims_table(splits: Mapping[str, SplitAnalysis]) -> "Table":
    """One row per claim and split."""
    from rich.table import Table

    table = Table(title="claims of the paper, in this run", title_justify="left", title_style="bold")
    for name in ("claim", "split", "", "measured"):
        table.add_column(name)
    for split in splits.values():
        for claim in split.claims:
            measured = [f"{name}: {value}" for name, value in claim.measured.items()]
            lines = [*measured, *([claim.reason] if claim.reason else [])]
            table.add_row(claim.id, claim.split, answer(claim.held), "\n".join(lines), end_section=True)
    return table


def answer(held: bool | None) -> str:
    """The three-way answer in words."""
    return {True: "held", False: "did not hold", None: "cannot tell"}[held]


def cell(rate: Interval) -> str:
    """`.412 ±.031`, or the value alone when there is no interval."""
    if not rate.known:
        return f"{rate.value:.3f}"
    return f"{rate.value:.3f} ±{(rate.high - rate.low) / 2:.3f}"
