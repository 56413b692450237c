"""Several runs on one page: their frontiers in one figure, their rates and their claims side by side.

Nothing is pooled and no difference between runs is tested: runs with other problems or other training are not
paired, and their intervals say nothing about training seeds. Command: `cef report A B C`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cef_env.errors import UserError
from cef_env.eval.analysis import SplitAnalysis
from cef_env.eval.claim_lines import ClaimGroup, Line, claim_groups
from cef_env.eval.figures import number
from cef_env.eval.page import Picture, flatten, picture, render, slug
from cef_env.eval.palette import PALETTE, PAPER, RUNS
from cef_env.eval.plotting import bars, fit, intervals_as_segments, new_figure, place_labels, styled
from cef_env.eval.shape import HIGH, LOW, STABLE
from cef_env.eval.summary import clean
from cef_env.eval.sweep import Frontier, Point
from cef_env.files import write_atomic
from cef_env.judge.types import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P")


@dataclass(frozen=True)
class Result:
    """One run of a comparison."""

    name: str
    splits: Mapping[str, SplitAnalysis]
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What was run; the page shows where the runs differ."""


@dataclass(frozen=True)
class Row:
    """One claim on one split, over the runs."""

    group: ClaimGroup
    lines: tuple[Line | None, ...]
    """One for each run; None where it has no such split."""


def write_comparison(out: Path, results: Sequence[Result]) -> Path:
    """Write `comparison.html` and `figures/*` into `out`; returns the path of the page.

    Raises `UserError` for fewer than two runs, more than the figure can tell apart, or two of one name.
    """
    if not 2 <= len(results) <= len(RUNS):
        raise UserError(f"a comparison needs 2 to {len(RUNS)} runs, not {len(results)}")
    names = [result.name for result in results]
    if len(set(names)) < len(names):
        raise UserError(f"two runs have the name {max(names, key=names.count)!r}; rename a folder")
    out.mkdir(parents=True, exist_ok=True)
    splits = sorted({s for r in results for s in r.splits}, key=lambda s: ("hard" not in s, s))
    page = render(
        "comparison.html.j2",
        ["theme.js"],
        title="Runs side by side",
        results=results,
        colours=RUNS,
        splits=splits,
        pictures={split: _overlay(split, results, out / "figures") for split in splits},
        points={split: [_points(r.splits.get(split)) for r in results] for split in splits},
        claims={split: _rows(split, results) for split in splits},
        differences=differences([dict(flatten(clean(dict(r.meta)))) for r in results]),
    )
    write_atomic(out / "comparison.html", page)
    return out / "comparison.html"


def differences(metas: Sequence[Mapping[str, str]]) -> list[tuple[str, list[str | None]]]:
    """Keys whose values are not the same in every run, with the values; None where a run has no such key."""
    keys = sorted({key for meta in metas for key in meta})
    rows = [(key, [meta.get(key) for meta in metas]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def _overlay(split: str, results: Sequence[Result], figures_to: Path) -> Picture:
    found = {r.name: r.splits[split].frontier for r in results if split in r.splits}
    ranks = {r.name: i for i, r in enumerate(results)}
    caption = (
        "The frontiers. One line for each run, one mark for each alpha in [-0.5, 1.5]; filled: trained or "
        "between; hollow: extrapolated. Bars: 95% intervals over problems."
    )
    draw = lambda narrow: overlay_figure(found, ranks, narrow)  # noqa: E731
    return picture(f"{slug(split)}-frontiers", caption, draw, figures_to)


@styled
def overlay_figure(found: Mapping[str, Frontier], ranks: Mapping[str, int], narrow: bool = False) -> "Figure":
    """The stable part of several frontiers in one plane. `ranks` fixes the colour and mark of each run."""
    figure, (ax,) = new_figure(*((4.1, 4.6) if narrow else (8.0, 5.6)))
    labels: list[str] = []
    colours: list[str] = []
    at, drawn = [], []
    every: list[Point] = []
    for name, frontier in found.items():
        colour = PALETTE[RUNS[ranks[name]]][0]
        points = [p for p in frontier.points if STABLE[0] <= p.alpha <= STABLE[1]]
        if not points:
            continue
        every += points
        xs = [p.rates[Outcome.OPTIMIZATION_FAILURE] for p in points]
        ys = [p.rates[Outcome.CORRECTNESS_FAILURE] for p in points]
        places = np.array([(x.value, y.value) for x, y in zip(xs, ys)])
        ax.plot(*places.T, color=colour, linewidth=1.3, alpha=0.8, zorder=1)
        ax.errorbar(
            places[:, 0], places[:, 1], xerr=bars(xs), yerr=bars(ys), linestyle="none", color=colour,
            elinewidth=0.8, alpha=0.4,
        )  # fmt: skip
        for point, (x, y) in zip(points, places):
            face = PAPER if point.extrapolated else colour
            ax.plot(
                x, y, marker=MARKERS[ranks[name]], color=colour, markerfacecolor=face, markeredgewidth=1.5,
                markersize=8 if point.trained else 6, linestyle="none", zorder=3,
            )  # fmt: skip
        ax.plot([], [], marker=MARKERS[ranks[name]], color=colour, label=name)
        at.append(places)
        drawn += [np.stack([places[:-1], places[1:]], axis=1), intervals_as_segments(xs, ys)]
        named = (LOW, HIGH, points[0].alpha, points[-1].alpha)  # the others follow along the line
        labels += [number(p.alpha) if p.alpha in named else "" for p in points]
        colours += [colour] * len(points)
    ax.set_xlabel("optimization failures (share of answers)")
    ax.set_ylabel("correctness failures (share of answers)")
    if every:
        fit(
            ax,
            [p.rates[Outcome.OPTIMIZATION_FAILURE] for p in every],
            [p.rates[Outcome.CORRECTNESS_FAILURE] for p in every],
        )
        figure.legend(loc="outside upper left", ncols=1 if narrow else 3)
        place_labels(ax, np.concatenate(at), np.concatenate(drawn), labels, colours, 8.5)
    return figure


def _points(split: SplitAnalysis | None) -> list[Point]:
    """The trained checkpoints and the outermost stable alphas, where they were sampled."""
    if split is None:
        return []
    stable = [p for p in split.frontier.points if STABLE[0] <= p.alpha <= STABLE[1]]
    return [p for p in stable if p.alpha in (LOW, HIGH) or p in (stable[0], stable[-1])]


def _rows(split: str, results: Sequence[Result]) -> list[Row]:
    own = [{split: r.splits[split]} if split in r.splits else {} for r in results]
    groups = [{group.id: group for group in claim_groups(splits)} for splits in own]
    ids = list(dict.fromkeys(id_ for found in groups for id_ in found))
    rows = []
    for id_ in ids:
        first = next(found[id_] for found in groups if id_ in found)
        rows.append(Row(first, tuple(found[id_].lines[0] if id_ in found else None for found in groups)))
    return rows
