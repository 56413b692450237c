"""The figures of a run: frontier, outcomes, rates, pass@k, turnover, training.

Each function takes results and returns a matplotlib figure; nothing is computed here. `narrow` draws the
same for a phone. Save with `plotting.save` (PNG or SVG) or put into a page with `plotting.inline_svg`.
Several runs in one figure: see `comparison.py`.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cef_env.eval.analysis import Curve, budget_grid
from cef_env.eval.comparisons import MemberRates
from cef_env.eval.counts import OUTCOMES
from cef_env.eval.intervals import Interval
from cef_env.eval.palette import COLOURS, EXTRAPOLATED, INK, PAPER, SOFT
from cef_env.eval.plotting import bars, fit, intervals_as_segments, new_figure, place_labels, styled
from cef_env.eval.records import Member
from cef_env.eval.shape import HIGH, LOW, STABLE
from cef_env.eval.sweep import Frontier, Point
from cef_env.judge.types import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALPHA = "\N{GREEK SMALL LETTER ALPHA}"
MARKERS = dict(zip(OUTCOMES, ("o", "s", "^", "x"), strict=True))


def words(outcome: Outcome) -> str:
    """The outcome as a person writes it."""
    return outcome.value.replace("_", " ")


def number(value: float) -> str:
    """With a true minus sign and no needless zeros."""
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


def member_name(member: Member) -> str:
    """The alpha, or the label of a control."""
    return member.label if member.alpha is None else number(member.alpha)


@styled
def frontier_figure(
    found: Frontier, controls: Sequence[MemberRates] = (), narrow: bool = False, others: str = "controls"
) -> "Figure":
    """Optimization failures against correctness failures, one point per member, with 95% intervals.

    `others` names the members of `controls`.
    """
    figure, (ax,) = new_figure(*((4.1, 4.3) if narrow else (6.4, 5.3)))
    xs = [p.rates[Outcome.OPTIMIZATION_FAILURE] for p in found.points]
    ys = [p.rates[Outcome.CORRECTNESS_FAILURE] for p in found.points]
    points = np.array([(x.value, y.value) for x, y in zip(xs, ys)])
    path = np.stack([points[:-1], points[1:]], axis=1)  # (N - 1, 2, 2)
    for segment, (left, right) in zip(path, pairwise(found.points)):
        inside = STABLE[0] <= left.alpha and right.alpha <= STABLE[1]
        ax.plot(
            *segment.T, color=INK, alpha=0.35, linewidth=1.1, linestyle="solid" if inside else ":", zorder=1
        )
    for (label, chosen), style in zip(_kinds(found.points), _KIND_STYLE):
        rows = [i for i, p in enumerate(found.points) if p in chosen]
        if rows:
            ax.errorbar(
                [xs[i].value for i in rows], [ys[i].value for i in rows],
                xerr=bars([xs[i] for i in rows]), yerr=bars([ys[i] for i in rows]),
                linestyle="none", elinewidth=0.9, label=label, zorder=3, **style,
            )  # fmt: skip
    drawn = [path, intervals_as_segments(xs, ys)]
    if controls:
        across = [m.rates[Outcome.OPTIMIZATION_FAILURE] for m in controls]
        up = [m.rates[Outcome.CORRECTNESS_FAILURE] for m in controls]
        ax.errorbar(
            [x.value for x in across], [y.value for y in up], xerr=bars(across), yerr=bars(up),
            linestyle="none", elinewidth=0.7, marker="x", markersize=5.5, color=SOFT, label=others,
            zorder=2,
        )  # fmt: skip
        points = np.concatenate([points, [(x.value, y.value) for x, y in zip(across, up)]])
        drawn.append(intervals_as_segments(across, up))
        xs, ys = [*xs, *across], [*ys, *up]
    ax.set_xlabel("optimization failures (share of answers)")
    ax.set_ylabel("correctness failures (share of answers)")
    # Far outside a few seeds differ widely: their bars may leave the frame rather than set it.
    stable = [STABLE[0] <= p.alpha <= STABLE[1] for p in found.points] + [True] * len(controls)
    fit(ax, *([v if inside else Interval(v.value) for v, inside in zip(vs, stable)] for vs in (xs, ys)))
    figure.legend(loc="outside upper left", ncols=1 if narrow else 2, handletextpad=0.5, columnspacing=1.6)
    labels = [number(p.alpha) for p in found.points] + [member_name(m.member) for m in controls]
    colours = [EXTRAPOLATED if p.extrapolated else INK for p in found.points] + [SOFT] * len(controls)
    place_labels(ax, points, np.concatenate(drawn), labels, colours)
    return figure


_OPEN = {"color": EXTRAPOLATED, "markerfacecolor": PAPER}
_KIND_STYLE: tuple[dict[str, Any], ...] = (
    {"marker": "D", "markersize": 7.5, "color": INK},
    {"marker": "o", "markersize": 5.5, "color": INK},
    {"marker": "o", "markersize": 6.5, "markeredgewidth": 1.6, **_OPEN},
    {"marker": "v", "markersize": 5.5, "markeredgewidth": 1.0, **_OPEN},
)


def _kinds(points: Sequence[Point]) -> list[tuple[str, list[Point]]]:
    stable = [p for p in points if STABLE[0] <= p.alpha <= STABLE[1]]
    return [
        ("trained: 0 is low, 1 is high coverage", [p for p in points if p.trained]),
        (f"interpolated, 0 < {ALPHA} < 1", [p for p in points if not p.trained and not p.extrapolated]),
        (f"extrapolated, {number(STABLE[0])} to {number(STABLE[1])}", [p for p in stable if p.extrapolated]),
        ("extrapolated further", [p for p in points if p not in stable]),
    ]


def _mark_alphas(ax: "Axes", alphas: Sequence[float], narrow: bool) -> None:
    """Ticks for alphas at equal distances: the trained ones bold, the extrapolated ones in the accent."""
    names = {LOW: "0\nlow", HIGH: "1\nhigh"}
    ax.set_xticks(range(len(alphas)), [names.get(a, number(a)) for a in alphas])
    for tick, alpha in zip(ax.get_xticklabels(), alphas):
        if alpha in names:
            tick.set_fontweight("bold")
        elif not LOW <= alpha <= HIGH:
            tick.set_color(EXTRAPOLATED)
    crowded = narrow and len(alphas) > 9
    ax.tick_params(axis="x", length=0, **({"labelsize": 7} if crowded else {}))
    ax.set_xlabel(ALPHA)


@styled
def outcomes_figure(found: Frontier, controls: Sequence[MemberRates] = (), narrow: bool = False) -> "Figure":
    """Stacked shares of the outcomes, one bar per alpha, then the controls; correct answers at the bottom."""
    figure, (ax,) = new_figure(*((4.1, 3.8) if narrow else (6.4, 5.3)))
    members: list[Point | MemberRates] = [*found.points, *controls]
    places = np.arange(len(members)) + 0.6 * (np.arange(len(members)) >= len(found.points))
    base = np.zeros(len(places))
    for outcome in OUTCOMES:
        heights = np.array([m.rates[outcome].value for m in members])
        ax.bar(
            places, heights, 0.86, base, color=COLOURS[outcome], edgecolor=PAPER, linewidth=0.8,
            label=words(outcome),
        )  # fmt: skip
        base += heights
    ax.grid(False)
    ax.set_ylim(0, 1)
    ax.set_xlim(-0.6, places[-1] + 0.6)
    ax.set_ylabel("share of answers")
    ax.spines["bottom"].set_visible(False)
    _mark_alphas(ax, [p.alpha for p in found.points], narrow)
    for place, control in zip(places[len(found.points) :], controls):
        name = member_name(control.member)
        ax.annotate(
            name if narrow else name.replace(" ", "\n", 1), (place, 0), (0, -6),
            xycoords=("data", "axes fraction"), textcoords="offset points",
            ha="center", va="top", fontsize=7.5, color=SOFT, rotation=90 if narrow else 0,
        )  # fmt: skip
    figure.legend(
        loc="outside upper left", ncols=2 if narrow else 4, columnspacing=1.3, handletextpad=0.5,
        handlelength=1.0, handleheight=1.0,
    )  # fmt: skip
    return figure


@styled
def rates_figure(found: Frontier, narrow: bool = False) -> "Figure":
    """Share of each outcome against alpha, with 95% bands; the trained checkpoints at 0 and 1."""
    figure, (ax,) = new_figure(*((4.1, 3.8) if narrow else (6.4, 4.2)))
    alphas = [p.alpha for p in found.points]
    ax.axvspan(LOW, HIGH, color=INK, alpha=0.05, linewidth=0)
    for outcome in OUTCOMES:
        rates = [p.rates[outcome] for p in found.points]
        colour = COLOURS[outcome]
        ax.fill_between(
            alphas, [r.low for r in rates], [r.high for r in rates], color=colour, alpha=0.18, linewidth=0
        )
        ax.plot(
            alphas, [r.value for r in rates], color=colour, marker=MARKERS[outcome], markersize=5,
            label=words(outcome),
        )  # fmt: skip
    ax.set_xlabel(f"{ALPHA} (0: low coverage, 1: high coverage)")
    ax.set_ylabel("share of answers")
    ax.set_ylim(bottom=0)
    figure.legend(
        *ax.get_legend_handles_labels(), loc="outside upper left", ncols=2 if narrow else 4,
        columnspacing=1.3, handletextpad=0.5,
    )  # fmt: skip
    return figure


@styled
def pass_at_k_figure(
    singles: Sequence[Curve], pools: Sequence[Curve], controls: Sequence[Curve] = (), narrow: bool = False
) -> "Figure":
    """pass@k of the best single alpha and of the pools at the same budget; other members thin behind."""
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    figure, (ax,) = new_figure(*((4.1, 4.4) if narrow else (6.4, 5.3)))
    best = max(singles, key=lambda curve: curve.values[-1].value)
    for curve in singles:
        if curve is not best:
            means = [v.value for v in curve.values]
            ax.plot(curve.budgets, means, color=SOFT, linewidth=0.8, alpha=0.45, zorder=1)
    name = f"best single alpha ({number(best.alphas[0])}), chosen on these data"
    lines: list[tuple[Curve, str, str, Any]] = [(best, name, INK, "solid")]
    for curve in pools:
        outside = any(not LOW <= alpha <= HIGH for alpha in curve.alphas)
        style = "solid" if outside else (0, (5, 2)) if len(curve.alphas) > 2 else (0, (1, 1.5))
        label = curve.label.replace("-", "\N{MINUS SIGN}")
        lines.append((curve, f"pool: {label}", EXTRAPOLATED if outside else INK, style))
    for curve, name, colour, style in lines:
        ax.plot(
            curve.budgets, [v.value for v in curve.values], color=colour, linestyle=style, linewidth=2.0,
            label=name,
        )  # fmt: skip
    for curve in controls:
        means = [v.value for v in curve.values]
        ax.plot(curve.budgets, means, color=SOFT, linewidth=1.0, linestyle=":", zorder=1)
    if controls:
        ax.plot([], [], color=SOFT, linewidth=1.0, linestyle=":", label="each control alone")
    if len(singles) > 1:
        ax.plot([], [], color=SOFT, linewidth=0.8, alpha=0.6, label="each other alpha alone")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(list(budget_grid(best.budgets[-1]))))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.set_xlabel("k, answers to each problem in all")
    ax.set_ylabel("pass@k")
    figure.legend(loc="outside upper left", handlelength=2.2, labelspacing=0.35)
    return figure


@styled
def turnover_figure(alphas: Sequence[float], jaccard: NDArray[np.float64], narrow: bool = False) -> "Figure":
    """Jaccard index of the problems solved at two alphas; the diagonal is the split-half null."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    size = len(alphas)
    figure, (ax,) = new_figure(*((4.1, 3.9) if narrow else (6.4, 5.3)))
    ax.grid(False)
    shades = LinearSegmentedColormap.from_list("solved", ["#eef0f6", "#93a0cf", "#1f2d6b"])
    known = jaccard[~np.isnan(jaccard)]
    least = 0.1 * np.floor(10 * known.min()) if len(known) else 0.0
    for i in range(size):
        for j in range(size):
            value = jaccard[i, j]
            depth = 0.0 if np.isnan(value) else (value - least) / max(1 - least, 1e-9)
            ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=shades(depth), edgecolor=PAPER))
            text = "–" if np.isnan(value) else f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"
            colour = "#ffffff" if depth > 0.6 else "#0c1020"
            ax.text(j, i, text, ha="center", va="center", fontsize=7.5 if narrow else 9, color=colour)
    for i in range(size):
        ax.add_patch(
            Rectangle((i - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=EXTRAPOLATED, linewidth=1.6, zorder=3)
        )
    ax.set_xlim(-0.5, size - 0.5)
    ax.set_ylim(size - 0.5, -0.5)
    _mark_alphas(ax, alphas, narrow)
    ax.set_yticks(range(size), [number(a) for a in alphas])
    ax.tick_params(axis="y", length=0)
    ax.set_ylabel(ALPHA)
    ax.spines[:].set_visible(False)
    return figure


@styled
def training_figure(rows: Sequence[Mapping[str, Any]], narrow: bool = False) -> "Figure":
    """Reward and outcome rates over training steps, one panel per run.

    Rows have `run`, `step`, `reward`, and any of the outcome names; absent values leave gaps.
    """
    runs = list(dict.fromkeys(str(row["run"]) for row in rows))
    across = 1 if narrow else min(len(runs), 2)
    down = -(-len(runs) // across)
    width, height = (4.1, 2.6) if narrow else (4.6, 3.0)
    figure, axes = new_figure(width * across, 0.5 + height * down, across, down)
    for ax in axes[len(runs) :]:
        ax.set_visible(False)
    for ax, run in zip(axes, runs):
        mine = sorted((row for row in rows if str(row["run"]) == run), key=lambda row: row["step"])
        steps = [row["step"] for row in mine]
        for outcome in OUTCOMES:
            values = [row.get(outcome.value, np.nan) for row in mine]
            ax.plot(steps, values, color=COLOURS[outcome], linewidth=1.5, label=words(outcome))
        reward = [row.get("reward", np.nan) for row in mine]
        ax.plot(steps, reward, color=INK, linewidth=1.5, linestyle=(0, (4, 2)), label="reward")
        ax.set_title(run.replace("_", " "), loc="left")
        ax.set_xlabel("training step")
        ax.set_ylabel("mean over the batch")
        ax.set_ylim(-0.02, 1.02)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper left", ncols=2 if narrow else 5, columnspacing=1.3,
        handletextpad=0.5,
    )  # fmt: skip
    return figure
