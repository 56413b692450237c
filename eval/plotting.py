"""The look of the figures, and how they are saved: identical bytes for identical data.

Every distinction by colour (see `palette.py`) is also made by marker, line style or place. `inline_svg` gives
an SVG whose colours follow the page's CSS, so that one drawing serves light and dark, and whose text is text
in the page's own font.
"""

import functools
import html
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from cef_env.eval.intervals import Interval
from cef_env.eval.palette import INK, PAPER, themed
from cef_env.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
Floats = NDArray[np.float64]
Box = tuple[float, float, float, float]

STYLE: Any = {
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "font.family": "DejaVu Sans", "font.size": 10, "axes.titlesize": 10.5, "axes.labelsize": 10,
    "xtick.labelsize": 9.5, "ytick.labelsize": 9.5, "legend.fontsize": 9.5, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8, "axes.labelpad": 6,
    "xtick.major.size": 3, "ytick.major.size": 3,
    "lines.linewidth": 1.8, "lines.markersize": 6, "svg.fonttype": "path", "axes.unicode_minus": True,
}  # fmt: skip


def styled(draw: "Callable[P, Figure]") -> "Callable[P, Figure]":
    """Run a figure function under the project's style, whatever the user's matplotlib is set to.

    The layout is settled once: matplotlib would otherwise compute it again for every file it writes.
    """

    @functools.wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> "Figure":
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        return figure

    return wrapper


def new_figure(width: float, height: float, columns: int = 1, rows: int = 1) -> "tuple[Figure, list[Axes]]":
    """A figure in inches that no global state knows of, and its axes from left to right and down."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes:
        ax.grid(True, color=INK, alpha=0.09, linewidth=0.6)
        ax.set_axisbelow(True)
    return figure, axes


def save(figure: "Figure", path: Path) -> None:
    """Write PNG or SVG by the suffix of `path`."""
    write_atomic(path, _render(figure, path.suffix.removeprefix("."), path.stem))


def inline_svg(figure: "Figure", name: str, title: str) -> str:
    """An `<svg>` element for a page; `name` keeps its ids apart from those of other figures."""
    text = _render(figure, "svg", name, fonttype="none").decode()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"font: (\w+ )?([\d.]+px) [^;\"]*", _font, text)
    # Ids must be unique in a page.
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    label = html.escape(title, quote=True)
    return themed(text).replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _font(match: re.Match[str]) -> str:
    """Size and weight of a text, and the family left to the page."""
    weight = match[1] or "normal"
    return f"font-size: {match[2]}; font-weight: {weight.strip()}"


def _render(figure: "Figure", kind: str, salt: str, fonttype: str = "path") -> bytes:
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context({**STYLE, "svg.hashsalt": salt, "svg.fonttype": fonttype}):
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()


def bars(values: Sequence[Interval]) -> NDArray[np.float64]:
    """Shape (2, points): lengths of the error bars; NaN draws none."""
    return np.array([[v.value - v.low for v in values], [v.high - v.value for v in values]]).clip(min=0)


def intervals_as_segments(xs: Sequence[Interval], ys: Sequence[Interval]) -> NDArray[np.float64]:
    """Shape (M, 2, 2): ends of the error bars that exist, for labels to keep clear of."""
    found = [[(x.low, y.value), (x.high, y.value)] for x, y in zip(xs, ys) if x.known]
    found += [[(x.value, y.low), (x.value, y.high)] for x, y in zip(xs, ys) if y.known]
    return np.array(found).reshape(-1, 2, 2)


def fit(ax: "Axes", xs: Sequence[Interval], ys: Sequence[Interval]) -> None:
    """Limits around the points and their intervals; from 0 where that wastes less than half of an axis."""
    for values, limit in ((xs, ax.set_xlim), (ys, ax.set_ylim)):
        low = min(x.value if np.isnan(x.low) else x.low for x in values)
        high = max(x.value if np.isnan(x.high) else x.high for x in values)
        room = max(high - low, 0.05)
        limit(-0.03 * max(high, 0.05) if low < room else low - 0.15 * room, high + 0.1 * room)


def place_labels(
    ax: "Axes", points: Floats, obstacles: Floats, labels: list[str], colours: list[str], size: float = 9.5
) -> None:
    """Write a label beside each point where it covers neither a drawn line, nor a point, nor another label.

    `points` (N, 2) in data units; `obstacles` (M, 2, 2): the segments that are drawn. Tries places around
    each point at growing distance and takes the one with the least overlap; a thin line leads to far labels.
    An empty label writes nothing.
    """
    figure = ax.figure
    figure.canvas.draw()
    scale = figure.dpi / 72
    at = ax.transData.transform(points)
    ends = ax.transData.transform(obstacles.reshape(-1, 2)).reshape(-1, 2, 2)
    steps = np.linspace(0, 1, 150)[:, None, None]
    ink = np.concatenate([at, (ends[:, 0] * (1 - steps) + ends[:, 1] * steps).reshape(-1, 2)])
    frame = ax.get_window_extent()
    boxes: list[Box] = []
    apart = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(at))
    for i in np.argsort(apart.min(axis=1), kind="stable"):  # crowded points choose first
        if not labels[i]:
            continue
        w, h = (0.62 * size * len(labels[i]) + 2) * scale, (size + 3) * scale
        options: list[tuple[float, int, float, float, int, Box]] = []
        for radius in (9, 15, 22, 32):
            for angle in np.radians(np.arange(22.5, 382.5, 22.5)):
                dx = (radius * scale + w / 2) * np.cos(angle)
                dy = (radius * scale + h / 2) * np.sin(angle)
                x, y = at[i][0] + dx, at[i][1] + dy
                box = (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
                pad = 2 * scale
                covered = (
                    (ink[:, 0] > box[0] - pad) & (ink[:, 0] < box[2] + pad)
                    & (ink[:, 1] > box[1] - pad) & (ink[:, 1] < box[3] + pad)
                ).sum()  # fmt: skip
                outside = box[0] < frame.x0 or box[2] > frame.x1 or box[1] < frame.y0 or box[3] > frame.y1
                cost = 10 * covered + sum(_overlap(box, other) for other in boxes) + 1e6 * outside + radius
                options.append((cost, len(options), dx / scale, dy / scale, radius, box))
        _, _, dx, dy, radius, box = min(options)
        boxes.append(box)
        leader = {"arrowstyle": "-", "color": INK, "alpha": 0.35, "linewidth": 0.8, "shrinkB": 4}
        ax.annotate(
            labels[i], (points[i][0], points[i][1]), (dx, dy), textcoords="offset points", ha="center",
            va="center", fontsize=size, color=colours[i], zorder=6,
            arrowprops=leader if radius > 15 else None,
        )  # fmt: skip


def _overlap(a: Box, b: Box) -> float:
    """Area that two boxes (left, bottom, right, top) share."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
