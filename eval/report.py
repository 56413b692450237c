"""The report: one self-contained HTML file, with the summary and the figures beside it.

The page loads nothing from anywhere, follows the reader's light or dark mode, works by keyboard and on a
phone, and prints. Does not compute: it shows what `analyse` found, and holds no time stamp, so equal input
gives equal files. Several runs on one page: see `comparison.py`.

    from cef_env.eval import read_samples, write_report
    write_report("runs/demo", read_samples("runs/demo/samples.jsonl"), meta={"model": "..."})
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cef_env.eval.analysis import SplitAnalysis, analyse
from cef_env.eval.claim_lines import claim_groups, tally
from cef_env.eval.counts import Counts, Tables
from cef_env.eval.figures import (
    frontier_figure,
    member_name,
    number,
    outcomes_figure,
    pass_at_k_figure,
    rates_figure,
    training_figure,
    turnover_figure,
)
from cef_env.eval.further import further
from cef_env.eval.page import Picture, embed, flatten, picture, render, slug, thousands
from cef_env.eval.reader import MOST, Answer, Archive, pack
from cef_env.eval.records import Sample
from cef_env.eval.shape import HIGH, LOW, STABLE
from cef_env.eval.summary import clean, summary_of, write_summary
from cef_env.files import write_atomic
from cef_env.judge.types import Verdict
from cef_env.problems import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Correctness–efficiency frontier"
CAPTIONS = {
    "frontier": "The frontier. Each mark is one alpha; towards the origin is better. Bars: 95% intervals "
    "over problems.",
    "outcomes": "What the answers are. One bar for each alpha, failures stacked on what is solved.",
    "pass_at_k": "At equal budget. A pool shares its k answers evenly among its members, which were fixed in "
    "advance; the best single alpha was chosen on these data, which flatters it. Differences with intervals: "
    "among the claims.",
    "rates": "The same shares, with intervals. Bands: 95% over problems; shaded: interpolation.",
    "turnover": "Which problems are solved. Jaccard index of two alphas at half of the answers; framed: two "
    "halves of one alpha's answers, which is what redrawing alone gives.",
}


@dataclass(frozen=True)
class Material:
    """What a page shows beside the statistics."""

    meta: Mapping[str, Any]
    """What was run, any JSON values, may be nested; `title` becomes the heading."""
    train_log: Sequence[Mapping[str, Any]] = ()
    """Rows with `run`, `step`, `reward` and outcome rates."""
    notes: Sequence[str] = ()
    """Sentences that a reader must know before the numbers."""
    answers: Iterable[Answer] = ()
    """To read one by one: those that `reader.choose` chose, in any order."""
    problems: Mapping[str, Mapping[str, Problem]] | None = None
    """By split and id."""
    made: Mapping[str, Any] = field(default_factory=dict)
    """How it was made, beyond what determines the results: versions, sandbox."""
    stages: Sequence[Mapping[str, Any]] = ()
    """How each stage went: `stage`, `wall_s`, `cpu_s`, `peak_memory_mb`."""


def write_report(
    out: str | os.PathLike[str],
    samples: Iterable[Sample] | Tables,
    meta: Mapping[str, Any] | None = None,
    train_log: Sequence[Mapping[str, Any]] = (),
    notes: Sequence[str] = (),
    seed: int = 0,
    **material: Any,
) -> Path:
    """Analyse `samples` and write `report.html`, `summary.json` and `figures/*` into `out`.

    Arguments other than `out`, `samples` and `seed` are those of `Material`. Returns the path of the page.
    Raises `UserError` when there is no complete alpha to report.
    """
    splits = _hard_first(analyse(samples, seed))
    write_summary(summary_of(splits, meta), Path(out) / "summary.json")
    return write_page(out, splits, Material(meta or {}, train_log, notes, **material))


def _hard_first(splits: Mapping[str, SplitAnalysis]) -> dict[str, SplitAnalysis]:
    """The paper's headline is about hard problems, so the page begins with them."""
    return dict(sorted(splits.items(), key=lambda item: ("hard" not in item[0], item[0])))


def write_page(out: str | os.PathLike[str], splits: Mapping[str, SplitAnalysis], material: Material) -> Path:
    """Write `report.html` and `figures/*` of results that are already computed."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    figures_to = out / "figures"
    about = dict(material.meta)
    title = str(about.pop("title", TITLE))
    config = about.pop("config", {})
    training = None
    if material.train_log:
        caption = "Training. Reward and outcomes of the batch at each step, one panel per run."
        log = material.train_log
        training = picture("training", caption, lambda narrow: training_figure(log, narrow), figures_to)
    problems = material.problems or {}
    archive = pack(material.answers, [split.members for split in splits.values()], problems)
    page = render(
        "report.html.j2",
        ["theme.js", "map.js", "reader.js"],
        title=title,
        facts=_facts(splits, about),
        claims=claim_groups(splits),
        tallies={name: tally(split.claims) for name, split in splits.items()},
        further={name: further(split) for name, split in splits.items()},
        splits=splits,
        pictures={name: pictures(name, split, figures_to) for name, split in splits.items()},
        training=training,
        notes=material.notes,
        meta=flatten(clean(about | dict(material.made))),
        config=flatten(clean(config)),
        stages=material.stages,
        map=embed(_map(splits, problems)),
        archive=archive,
        blocks=_blocks(archive),
        most=MOST,
    )
    write_atomic(out / "report.html", page.encode("utf-8", "replace"))  # sources may hold lone surrogates
    return out / "report.html"


def pictures(name: str, split: SplitAnalysis, figures_to: Path | None) -> dict[str, Picture]:
    """Every figure that the data of one split allow."""
    found, jaccard = split.frontier, split.jaccard
    if not found.points:
        return {}
    draw: dict[str, Callable[[bool], Figure]] = {
        "frontier": lambda narrow: frontier_figure(found, split.controls, narrow),
        "outcomes": lambda narrow: outcomes_figure(found, split.controls, narrow),
        "pass_at_k": lambda narrow: pass_at_k_figure(
            split.singles, split.pools, split.control_curves, narrow
        ),
        "rates": lambda narrow: rates_figure(found, narrow),
    }
    if jaccard is not None and len(found.points) > 1:
        draw["turnover"] = lambda narrow: turnover_figure(split.counts.alphas, jaccard, narrow)
    return {
        kind: picture(f"{slug(name)}-{kind}", CAPTIONS[kind], function, figures_to)
        for kind, function in draw.items()
    }


def _facts(splits: Mapping[str, SplitAnalysis], about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The few facts of the head of the page."""
    tables = [split.members for split in splits.values()]
    alphas = sorted({a for t in tables for a in t.alphas})
    controls = {m for t in tables for m in t.members if m.alpha is None}
    wanted = ("preset", "model", "environment", "seed")
    facts = [(name, str(about[name])) for name in wanted if _short(about.get(name))]
    if alphas:
        facts.append(("alphas", f"{len(alphas)}, {number(alphas[0])} to {number(alphas[-1])}"))
    if controls:
        facts.append(("controls", str(len(controls))))
    facts.append(("problems", ", ".join(f"{len(t.problem_ids)} {t.split}" for t in tables)))
    return [*facts, ("answers", thousands(sum(int(t.n.sum()) for t in tables)))]


def _short(value: Any) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) < 40


def _map(
    splits: Mapping[str, SplitAnalysis], problems: Mapping[str, Mapping[str, Problem]]
) -> dict[str, Any]:
    """What the map of outcomes is drawn from."""
    return {
        "verdicts": [v.value.replace("_", " ") for v in Verdict],
        "splits": [_map_of(name, split.members, problems.get(name, {})) for name, split in splits.items()],
    }


def _map_of(name: str, counts: Counts, known: Mapping[str, Problem]) -> dict[str, Any]:
    levels = counts.difficulties or (None,) * len(counts.problem_ids)
    return {
        "name": name,
        "alphas": [member.alpha for member in counts.members],
        "names": [member_name(member) for member in counts.members],
        "ends": [counts.alphas.index(a) if a in counts.alphas else None for a in (LOW, HIGH)],
        "stable": [i for i, a in enumerate(counts.alphas) if STABLE[0] <= a <= STABLE[1]],
        "problems": [
            [id_, known[id_].title if id_ in known else "", level or ""]
            for id_, level in zip(counts.problem_ids, levels, strict=True)
        ],
        "counts": counts.outcomes.reshape(len(counts.members), -1).tolist(),
    }


def _blocks(archive: Archive) -> dict[str, list[str]]:
    return {f"{s}-{p}": list(texts) for (s, p), texts in archive.blocks.items()}
