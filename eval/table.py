"""Outcome rates over alpha, and the claims, as tables for the terminal. The page has what they leave out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cef_env.eval.analysis import SplitAnalysis
from cef_env.eval.claim_lines import VERDICT_WORDS, claim_groups
from cef_env.eval.counts import OUTCOMES
from cef_env.eval.intervals import Interval
from cef_env.eval.records import short
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
    table = Table(title=escape(title), title_justify="left", title_style="bold", header_style="bold")
    table.add_column("alpha" if not split.controls else "member", justify="right", overflow="fold")
    for outcome in OUTCOMES:
        table.add_column(outcome.value.replace("_", " "), justify="right")
    names = {LOW: "low", HIGH: "high"}
    for point in split.frontier.points:
        name = short(point.alpha)
        if point.trained:
            name = f"{names[point.alpha]} {name}"
        cells = [cell(point.rates[o]) for o in OUTCOMES]
        table.add_row(name, *cells, style="bold" if point.trained else None)
    for control in split.controls:
        table.add_row(escape(control.member.label), *(cell(control.rates[o]) for o in OUTCOMES))
    if counts.left_out:
        left_out = ", ".join(m.name for m in counts.left_out)
        table.caption = escape(f"not finished, left out: {left_out}")
    return table


def claims_table(splits: Mapping[str, SplitAnalysis]) -> "Table":
    """One line per claim and split: verdict and the number that says most, or why there is none."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title="claims of the paper, in this run", title_justify="left", title_style="bold",
        caption="all numbers and reasons: see the report", caption_justify="left", box=None,
        padding=(0, 2, 0, 0),
    )  # fmt: skip
    rows = [
        (line.claim.id, line.claim.split, VERDICT_WORDS[line.claim.held],
         "-" if line.leading is None else str(line.leading), line.name or line.claim.reason)
        for group in claim_groups(splits)
        for line in group.lines
    ]  # fmt: skip
    for name in ("claim", "split", "verdict", "measured"):
        table.add_column(name, no_wrap=True)
    table.add_column("")  # the one that gives way where the terminal is narrow: cut, not wrapped
    for *cells, what in rows:
        table.add_row(*map(escape, cells), Text(what, no_wrap=True, overflow="ellipsis"))
    return table


def cell(rate: Interval) -> str:
    """`.412 ±.031`, or the value alone when there is no interval."""
    if not rate.known:
        return f"{rate.value:.3f}"
    return f"{rate.value:.3f} ±{(rate.high - rate.low) / 2:.3f}"
