"""The report: one self-contained HTML file, with the summary and the figures beside it.

The page loads nothing from anywhere, follows the reader's light or dark mode, and prints. Does not
compute: it shows what `analyse` found, and holds no time stamp, so equal results give equal files.

    from cef_env.eval import read_samples, write_report
    write_report("runs/demo", read_samples("runs/demo/samples.jsonl"), meta={"model": "..."})
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cef_env.eval.analysis import SplitAnalysis, analyse
from cef_env.eval.counts import OUTCOMES, Tables
from cef_env.eval.figures import figures_of, training_figure, words
from cef_env.eval.plotting import inline_svg, save
from cef_env.eval.records import Sample
from cef_env.eval.summary import clean, summary_of, write_summary
from cef_env.eval.table import answer
from cef_env.files import write_atomic

TITLE = "Correctness-efficiency frontier"


@dataclass(frozen=True)
class Picture:
    """One figure of the page."""

    svg: str
    caption: str
    wide: bool = False


def write_report(
    out: str | os.PathLike[str],
    samples: Iterable[Sample] | Tables,
    meta: Mapping[str, Any] | None = None,
    train_log: Sequence[Mapping[str, Any]] | None = None,
    notes: Sequence[str] = (),
    seed: int = 0,
) -> Path:
    """Analyse `samples` and write `report.html`, `summary.json` and `figures/*.png` into `out`.

    `meta`: what was run, any JSON values, may be nested; `title` becomes the heading. `train_log`: rows
    with `run`, `step`, `reward` and outcome rates. `notes`: paragraphs shown at the end. Returns the path
    of the page. Raises `UserError` when there is no complete alpha to report.
    """
    out = Path(out)
    splits = analyse(samples, seed)
    write_summary(summary_of(splits, meta), out / "summary.json")
    page = render(splits, meta, train_log, notes, out / "figures")
    write_atomic(out / "report.html", page)
    return out / "report.html"


def render(
    splits: Mapping[str, SplitAnalysis],
    meta: Mapping[str, Any] | None = None,
    train_log: Sequence[Mapping[str, Any]] | None = None,
    notes: Sequence[str] = (),
    figures_to: Path | None = None,
) -> str:
    """The page as text. `figures_to`: also write every figure there as PNG."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    about = dict(meta or {})
    title = str(about.pop("title", TITLE))
    environment = Environment(
        loader=PackageLoader("cef_env.eval", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=_number, held=answer, words=words, capitalize_first=_sentence)
    training = None
    if train_log:
        figure = training_figure(train_log)
        caption = "Training. Reward and outcomes of the batch at each step, one panel per run."
        training = _picture("training", figure, caption, figures_to, wide=True)
    return environment.get_template("report.html.j2").render(
        title=title,
        meta=_flatten(clean(about)),
        splits=splits,
        outcomes=OUTCOMES,
        pictures={s: _pictures(s, a, figures_to) for s, a in splits.items()},
        tally=_tally(splits),
        training=training,
        notes=notes,
    )


def _pictures(split: str, analysis: SplitAnalysis, figures_to: Path | None) -> list[Picture]:
    return [
        _picture(f"{_slug(split)}-{name}", figure, caption, figures_to)
        for name, (figure, caption) in figures_of(analysis).items()
    ]


def _picture(name: str, figure: Any, caption: str, figures_to: Path | None, wide: bool = False) -> Picture:
    if figures_to is not None:
        figures_to.mkdir(parents=True, exist_ok=True)
        save(figure, figures_to / f"{name}.png")
    return Picture(inline_svg(figure, name, caption.split(".")[0]), caption, wide)


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in text)


def _flatten(meta: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Nested values as rows of a table, `training.steps` and so on."""
    if isinstance(meta, dict):
        return [
            row
            for key, value in meta.items()
            for row in _flatten(value, f"{prefix}.{key}" if prefix else key)
        ]
    if isinstance(meta, list):
        return [(prefix, ", ".join(str(v) for v in meta))]
    return [(prefix, "" if meta is None else str(meta))]


def _tally(splits: Mapping[str, SplitAnalysis]) -> dict[str, int]:
    """How many claims held, did not hold, and could not be told, over all splits."""
    held = [claim.held for split in splits.values() for claim in split.claims]
    return {answer(value): held.count(value) for value in (True, False, None)}


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.3f}"


def _sentence(text: str) -> str:
    """With a capital at the start, and the rest as it is."""
    return text[:1].upper() + text[1:]
