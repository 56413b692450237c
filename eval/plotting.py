"""The look of the figures, and how they are saved: identical bytes for identical data.

Colours are chosen from the Okabe-Ito palette, which colour-blind readers can tell apart, and every
distinction is also made by marker or line style. `inline_svg` gives an SVG whose ink and paper follow the
page's CSS (`currentColor`, `--paper`), so that one figure serves light and dark mode.
"""

import functools
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from cef_env.judge.types import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
Floats = NDArray[np.float64]
Box = tuple[float, float, float, float]

INK = "#15181c"
PAPER = "#fefdfe"  # not pure white, so that replacing it cannot touch anything else

COLOURS = {
    Outcome.CORRECT: "#009e73",
    Outcome.OPTIMIZATION_FAILURE: "#e08a00",
    Outcome.CORRECTNESS_FAILURE: "#2f86c9",
    Outcome.FORMAT_ERROR: "#8a8f98",
}
MARKERS = {
    Outcome.CORRECT: "o",
    Outcome.OPTIMIZATION_FAILURE: "s",
    Outcome.CORRECTNESS_FAILURE: "^",
    Outcome.FORMAT_ERROR: "x",
}
INTERPOLATED = "#2f86c9"
EXTRAPOLATED = "#d55e00"

STYLE: Any = {
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "font.family": "DejaVu Sans", "font.size": 12, "axes.titlesize": 13, "axes.labelsize": 12.5,
    "xtick.labelsize": 11, "ytick.labelsize": 11, "legend.fontsize": 11, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.9,
    "lines.linewidth": 2.0, "lines.markersize": 6.5, "svg.fonttype": "path", "axes.unicode_minus": False,
}  # fmt: skip


def styled(draw: "Callable[P, Figure]") -> "Callable[P, Figure]":
    """Run a figure function under the project's style, whatever the user's matplotlib is set to."""

    @functools.wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> "Figure":
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return wrapper


def new_figure(width: float, height: float, columns: int = 1) -> "tuple[Figure, list[Axes]]":
    """A figure in inches that no global state knows of, and its axes from left to right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(1, columns, squeeze=False)[0])
    for ax in axes:
        ax.grid(True, color=INK, alpha=0.12, linewidth=0.7)
        ax.set_axisbelow(True)
    return figure, axes


def save(figure: "Figure", path: Path) -> None:
    """Write PNG or SVG by the suffix of `path`."""
    path.write_bytes(_render(figure, path.suffix.removeprefix("."), path.stem))


def inline_svg(figure: "Figure", name: str, title: str) -> str:
    """An `<svg>` element for a page; `name` keeps its ids apart from those of other figures."""
    text = _render(figure, "svg", name).decode()
    text = text[text.index("<svg") :].strip()
    text = text.replace(INK, "currentColor").replace(PAPER, "var(--paper)")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Glyphs have the same ids in every figure; ids must be unique in a page.
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)


def _render(figure: "Figure", kind: str, salt: str) -> bytes:
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context({**STYLE, "svg.hashsalt": salt}):
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def place_labels(
    ax: "Axes", points: Floats, obstacles: Floats, labels: list[str], size: float = 10.5
) -> None:
    """Write a label beside each point where it covers neither a drawn line, nor a point, nor another label.

    `points` (N, 2) in data units; `obstacles` (M, 2, 2): the segments that are drawn. Tries places around
    each point at growing distance and takes the one with the least overlap; a thin line leads to far labels.
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
            va="center", fontsize=size, color=INK, zorder=6, arrowprops=leader if radius > 15 else None,
        )  # fmt: skip


def _overlap(a: Box, b: Box) -> float:
    """Area that two boxes (left, bottom, right, top) share."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
