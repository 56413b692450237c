"""The figures of a report: frontier, outcomes over alpha, pass@k, turnover, training.

Each function takes results and returns a matplotlib figure; nothing is computed here. Save with
`plotting.save` (PNG or SVG) or put into a page with `plotting.inline_svg`.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cef_env.eval.analysis import Curve, SplitAnalysis, budget_grid
from cef_env.eval.counts import OUTCOMES
from cef_env.eval.intervals import Interval
from cef_env.eval.plotting import (
    COLOURS,
    EXTRAPOLATED,
    INK,
    INTERPOLATED,
    MARKERS,
    PAPER,
    new_figure,
    place_labels,
    styled,
)
from cef_env.eval.shape import HIGH, LOW, STABLE
from cef_env.eval.sweep import Frontier, Point
from cef_env.judge.types import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def words(outcome: Outcome) -> str:
    """The outcome as a person writes it."""
    return outcome.value.replace("_", " ")


@styled
def frontier_figure(found: Frontier) -> "Figure":
    """Optimization failures against correctness failures, one point per alpha, with 95% intervals."""
    figure, (ax,) = new_figure(7.6, 6.0)
    xs = [p.rates[Outcome.OPTIMIZATION_FAILURE] for p in found.points]
    ys = [p.rates[Outcome.CORRECTNESS_FAILURE] for p in found.points]
    points = np.array([(x.value, y.value) for x, y in zip(xs, ys)])
    path = np.stack([points[:-1], points[1:]], axis=1)  # (N - 1, 2, 2)
    for segment, (left, right) in zip(path, pairwise(found.points)):
        inside = STABLE[0] <= left.alpha and right.alpha <= STABLE[1]
        ax.plot(
            *segment.T, color=INK, alpha=0.4, linewidth=1.3, linestyle="solid" if inside else ":", zorder=1
        )
    for (label, chosen), style in zip(_kinds(found.points), _KIND_STYLE):
        rows = [i for i, p in enumerate(found.points) if p in chosen]
        if rows:
            ax.errorbar(
                [xs[i].value for i in rows], [ys[i].value for i in rows],
                xerr=_bars([xs[i] for i in rows]), yerr=_bars([ys[i] for i in rows]),
                linestyle="none", elinewidth=1, label=label, zorder=3, **style,
            )  # fmt: skip
    ax.set_xlabel("optimization failures (share of answers)")
    ax.set_ylabel("correctness failures (share of answers)")
    _from_zero(ax, xs, ys)
    ax.legend(loc="upper right", handletextpad=0.6)
    bars = [[(x.low, y.value), (x.high, y.value)] for x, y in zip(xs, ys) if x.known]
    bars += [[(x.value, y.low), (x.value, y.high)] for x, y in zip(xs, ys) if y.known]
    drawn = np.concatenate([path, np.array(bars).reshape(-1, 2, 2)])
    place_labels(ax, points, drawn, [f"{p.alpha:g}" for p in found.points])
    return figure


_KIND_STYLE: tuple[dict[str, Any], ...] = (
    {"marker": "D", "markersize": 9, "color": INK, "ecolor": INK, "alpha": 1.0},
    {"marker": "o", "markersize": 7, "color": INTERPOLATED, "ecolor": INTERPOLATED},
    {"marker": "o", "markersize": 8, "color": EXTRAPOLATED, "markerfacecolor": PAPER, "markeredgewidth": 1.8},
    {"marker": "v", "markersize": 7, "color": "#8a8f98", "markerfacecolor": PAPER, "markeredgewidth": 1.5},
)


def _kinds(points: Sequence[Point]) -> list[tuple[str, list[Point]]]:
    stable = [p for p in points if STABLE[0] <= p.alpha <= STABLE[1]]
    return [
        ("trained (0: low, 1: high coverage)", [p for p in points if p.trained]),
        (
            "interpolated, 0 < \N{GREEK SMALL LETTER ALPHA} < 1",
            [p for p in points if not p.trained and not p.extrapolated],
        ),
        ("extrapolated, within [-0.5, 1.5]", [p for p in stable if p.extrapolated]),
        ("extrapolated further", [p for p in points if p not in stable]),
    ]


@styled
def outcomes_figure(found: Frontier) -> "Figure":
    """Share of each outcome against alpha, with 95% bands; the trained checkpoints at 0 and 1."""
    figure, (ax,) = new_figure(8.4, 5.0)
    alphas = [p.alpha for p in found.points]
    ax.axvspan(LOW, HIGH, color=INK, alpha=0.05, linewidth=0)
    for end in (LOW, HIGH):
        ax.axvline(end, color=INK, alpha=0.45, linewidth=1, linestyle=(0, (4, 3)))
    for outcome in OUTCOMES:
        rates = [p.rates[outcome] for p in found.points]
        colour = COLOURS[outcome]
        ax.fill_between(
            alphas, [r.low for r in rates], [r.high for r in rates], color=colour, alpha=0.18, linewidth=0
        )
        ax.plot(alphas, [r.value for r in rates], color=colour, marker=MARKERS[outcome], label=words(outcome))
    ax.set_xlabel("\N{GREEK SMALL LETTER ALPHA}  (0: low-coverage checkpoint, 1: high-coverage checkpoint)")
    ax.set_ylabel("share of answers")
    ax.set_ylim(bottom=0)
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="outside upper center",
        ncols=4,
        columnspacing=1.4,
        handletextpad=0.5,
    )
    return figure


@styled
def pass_at_k_figure(singles: Sequence[Curve], pools: Sequence[Curve]) -> "Figure":
    """pass@k of each alpha in the stable range, and of pools that share the same budget."""
    import matplotlib as mpl
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    figure, (ax,) = new_figure(7.6, 6.0)
    colours = mpl.colormaps["viridis"]
    # Without the map's dark and pale ends, which would not show on dark or light paper.
    norm = mpl.colors.Normalize(STABLE[0] - 0.6, STABLE[1] + 0.4)
    for curve in singles:
        alpha = curve.alphas[0]
        if not STABLE[0] <= alpha <= STABLE[1]:
            continue
        trained = alpha in (LOW, HIGH)
        ax.plot(
            curve.budgets, [v.value for v in curve.values], color=colours(norm(alpha)),
            linewidth=2.4 if trained else 1.4, marker="D" if trained else None, markersize=6,
            markevery=[curve.budgets.index(k) for k in budget_grid(curve.budgets[-1])],
            label=f"\N{GREEK SMALL LETTER ALPHA} = {alpha:g}" + (" (trained)" if trained else ""),
        )  # fmt: skip
    for curve, dashes in zip(pools, ((0, (1, 1.2)), (0, (5, 2)), "solid")):
        means = [v.value for v in curve.values]
        label = f"pool: {curve.label}"
        ax.plot(curve.budgets, means, color=EXTRAPOLATED, linewidth=2.6, linestyle=dashes, label=label)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(list(budget_grid(singles[0].budgets[-1]))))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.set_xlabel("k (answers to each problem)")
    ax.set_ylabel("pass@k")
    ax.legend(loc="lower right", handlelength=2.4, fontsize=10.5, labelspacing=0.35)
    return figure


@styled
def turnover_figure(alphas: Sequence[float], jaccard: NDArray[np.float64]) -> "Figure":
    """Jaccard index of the problems solved at two alphas; the diagonal is the split-half null."""
    from matplotlib.patches import Rectangle

    size = len(alphas)
    figure, (ax,) = new_figure(max(5.0, 2.4 + 0.52 * size), max(4.0, 1.6 + 0.48 * size))
    ax.grid(False)
    image = ax.imshow(jaccard, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    for i in range(size):
        for j in range(size):
            value = jaccard[i, j]
            text = "–" if np.isnan(value) else f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"
            ax.text(
                j,
                i,
                text,
                ha="center",
                va="center",
                fontsize=10,
                color="#ffffff" if value < 0.55 else "#000000",
            )
        ax.add_patch(Rectangle((i - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=EXTRAPOLATED, linewidth=2))
    names = [f"{a:g}" for a in alphas]
    ax.set_xticks(range(size), names)
    ax.set_yticks(range(size), names)
    ax.set_xlabel("\N{GREEK SMALL LETTER ALPHA}")
    ax.set_ylabel("\N{GREEK SMALL LETTER ALPHA}")
    ax.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=ax, fraction=0.05, pad=0.02)
    bar.set_label("Jaccard index of solved problems")
    bar.outline.set_visible(False)
    return figure


@styled
def training_figure(rows: Sequence[Mapping[str, Any]]) -> "Figure":
    """Reward and outcome rates over training steps, one panel per run.

    Rows have `run`, `step`, `reward`, and any of the outcome names; absent values leave gaps.
    """
    runs = list(dict.fromkeys(str(row["run"]) for row in rows))
    figure, axes = new_figure(max(5.2, 3.9 * len(runs)), 4.0, len(runs))
    for ax, run in zip(axes, runs):
        mine = sorted((row for row in rows if str(row["run"]) == run), key=lambda row: row["step"])
        steps = [row["step"] for row in mine]
        for outcome in OUTCOMES:
            values = [row.get(outcome.value, np.nan) for row in mine]
            ax.plot(steps, values, color=COLOURS[outcome], linewidth=1.6, label=words(outcome))
        reward = [row.get("reward", np.nan) for row in mine]
        ax.plot(steps, reward, color=INK, linewidth=1.8, linestyle=(0, (4, 2)), label="reward")
        ax.set_title(run)
        ax.set_xlabel("training step")
        ax.set_ylim(-0.02, 1.02)
    axes[0].set_ylabel("mean over the batch")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=5 if len(runs) > 1 else 3,
        columnspacing=1.3,
        handletextpad=0.5,
    )
    return figure


def figures_of(split: SplitAnalysis) -> "dict[str, tuple[Figure, str]]":
    """Name -> (figure, caption) of every figure that the data of one split allow."""
    if not split.counts.alphas:
        return {}
    found = {
        "frontier": (
            frontier_figure(split.frontier),
            "The frontier. Each point is one alpha; bars are 95% intervals over problems. "
            "Nearer to the origin is better.",
        ),
        "outcomes": (
            outcomes_figure(split.frontier),
            "Outcomes over alpha, with 95% intervals over problems. The shaded range is interpolation.",
        ),
        "pass_at_k": (
            pass_at_k_figure(split.singles, split.pools),
            "pass@k at equal budget. The pools were fixed in advance; each shares the k answers among "
            "its members.",
        ),
    }
    if split.jaccard is not None:
        found["turnover"] = (
            turnover_figure(split.counts.alphas, split.jaccard),
            "Which problems are solved, at half of the answers for each alpha. Framed: two disjoint "
            "halves of one alpha's answers, that is, what redrawing alone would give.",
        )
    return found


def _bars(values: Sequence[Interval]) -> NDArray[np.float64]:
    """Shape (2, points): lengths of the error bars; NaN draws none."""
    return np.array([[v.value - v.low for v in values], [v.high - v.value for v in values]]).clip(min=0)


def _from_zero(ax: "Axes", xs: Sequence[Interval], ys: Sequence[Interval]) -> None:
    """Both axes from 0, with room for labels."""
    top_x = max(x.value if np.isnan(x.high) else x.high for x in xs)
    top_y = max(y.value if np.isnan(y.high) else y.high for y in ys)
    ax.set_xlim(-0.03 * max(top_x, 0.05), 1.12 * max(top_x, 0.05))
    ax.set_ylim(-0.03 * max(top_y, 0.05), 1.12 * max(top_y, 0.05))
