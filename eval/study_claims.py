"""The paper's claims over a whole study: every cell, all its seeds, each with the number that decides it.

The rules for one table are those of `claims.py` and `verdicts.py`, applied to the runs of a cell side by
side (`crossed.py`); added are the claims that need checkpoints beside the alphas, or several cells. A
claim that holds for the seeds together but fails for one of them is left undecided. Does not read files:
see `study.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cef_env.eval.cells import CellData, alphas_of
from cef_env.eval.claims import judge_turnover
from cef_env.eval.comparisons import compare_controls
from cef_env.eval.counts import Counts
from cef_env.eval.crossed import CrossedBootstrap
from cef_env.eval.distances import distance_to_curve
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.shape import HIGH, LOW, STABLE
from cef_env.eval.verdicts import (
    FLAT_MARGIN,
    LEAST_BEYOND,
    LEAST_ENDS,
    LEAST_PASS,
    SEGMENT_MARGIN,
    Claim,
    all_of,
    exceeds,
)
from cef_env.judge.types import Outcome

SOLVED = "solve rate, high - low"
"""A number of claim (a) that decides claim (b)."""
SPLITS = ("hard", "easy")
"""The paper's headline is about hard problems; the other split stands beside."""


@dataclass(frozen=True)
class Row:
    """One number of one cell."""

    cell: str
    name: str
    value: Interval
    by_seed: tuple[float, ...]
    held: bool | None
    """Of the whole claim in this cell, which may have several numbers."""
    reason: str = ""


@dataclass(frozen=True)
class Finding:
    """One claim of the paper over the study."""

    letter: str
    title: str
    paper: str
    """The claim in our words, and the paper's own figure where its public summary gives one."""
    held: bool | None
    rows: tuple[Row, ...]
    reason: str = ""


def findings(cells: Sequence[CellData]) -> list[Finding]:
    """Every claim, (a) to (k)."""
    reasoning = [cell for cell in cells if cell.setting == "reasoning"]
    smallest = min((cell.parameters for cell in reasoning), default=0)
    settings = [c for c in cells if c.setting != "reasoning" or c.parameters == smallest]
    known = {cell.setting for cell in cells}
    sizes = {cell.parameters for cell in reasoning}
    both = ("coverage", "extrapolation")
    return [
        _of_claims("a", reasoning, ("coverage",)),
        _finding("b", [row for cell in reasoning for row in [_solved(cell), *_rows(cell, "flat")]]),
        _finding(
            "c", [row for cell in reasoning for row in _distances(cell, "coverage", (LOW, HIGH), _near)]
        ),
        _of_claims("d", reasoning, ("extrapolation",)),
        _finding("e", [r for c in reasoning for r in [*_stable(c), *_rows(c, "breakdown")]]),
        _of_claims("f", settings, both, "" if len(known) == 3 else "not all three settings were run"),
        _of_claims("g", reasoning, both, "" if len(sizes) > 1 else "one size was run"),
        _finding("h", [row for cell in reasoning for row in [*_rows(cell, "turnover"), *_few_answers(cell)]]),
        _finding(
            "i",
            [
                row
                for cell in reasoning
                for row in [*_rows(cell, "ensemble"), *_rows(cell, "extended_pool"), *_controls(cell)]
            ],
        ),
        _finding("j", [row for cell in reasoning for row in _distances(cell, "shaping", STABLE, _near)]),
        _finding("k", [row for cell in reasoning for row in _fixing(cell)]),
    ]


TITLES = {
    "a": (
        "Coverage trades one failure for the other",
        "On hard problems more coverage means fewer optimization failures and more correctness failures.",
    ),
    "b": (
        "The solve rate stays nearly the same",
        "On hard problems coverage hardly changes the solve rate.",
    ),
    "c": (
        "Averages recover the trained curve",
        "Checkpoints trained at coverages in between lie on the curve of the averages of the two ends.",
    ),
    "d": (
        "Averages outside continue beyond both ends",
        "Extrapolation extends the frontier on both sides.",
    ),
    "e": (
        "Stable on [-0.5, 1.5], format errors beyond",
        "Quality holds on about [-0.5, 1.5]; beyond |alpha| of 2 it falls, mainly by format errors.",
    ),
    "f": ("All three settings", "Reasoning, tool use and agentic coding all show it."),
    "g": ("Both sizes", "Both model sizes show it (the paper: 7B and 32B)."),
    "h": (
        "Different alphas solve different problems",
        "Which problems are solved changes along alpha, by more than redrawing does.",
    ),
    "i": (
        "Ensembles gain",
        "An ensemble over the extended pool beats the best single checkpoint at equal budget (the paper: "
        "+3.3% pass@250 on LCB/hard) and the interpolated pool. The controls are ours.",
    ),
    "j": (
        "Static shaping stays on the frontier",
        "Partial credit, discrete or continuous, moves along the same frontier.",
    ),
    "k": (
        "Failure-conditioned training moves it",
        "Online fixing moves the frontier outward; fix rate and solve rate rise.",
    ),
}
"""Letter -> title, and the paper's claim in our words."""


def _finding(letter: str, rows: Sequence[Row], reason: str = "") -> Finding:
    title, paper = TITLES[letter]
    parts = [row.held for row in rows] + ([None] if reason or not rows else [])
    return Finding(letter, title, paper, all_of(parts), tuple(rows), reason or ("" if rows else "not run"))


def _of_claims(letter: str, cells: Sequence[CellData], ids: Sequence[str], reason: str = "") -> Finding:
    return _finding(letter, [row for cell in cells for id_ in ids for row in _rows(cell, id_)], reason)


def _rows(cell: CellData, id_: str) -> list[Row]:
    """The numbers of one claim of `claims.py`."""
    claim, alone = cell.claims[id_]
    held, reason = _agreed(claim.held, [c.held for c in alone], cell.seeds, claim.reason)
    return _rows_of(cell, claim, alone, held, reason)


def _rows_of(
    cell: CellData, claim: Claim, alone: Sequence[Claim], held: bool | None, reason: str
) -> list[Row]:
    if not claim.measured:
        return [Row(cell.name, claim.id.replace("_", " "), Interval(float("nan")), (), held, reason)]
    return [
        Row(
            cell.name,
            name,
            value,
            tuple(c.measured[name].value for c in alone if name in c.measured),
            held,
            reason,
        )
        for name, value in claim.measured.items()
        if name != SOLVED
    ]


def _solved(cell: CellData) -> Row:
    """Between the trained ends: the same within `FLAT_MARGIN`."""
    claim, alone = cell.claims["coverage"]
    value = claim.measured.get(SOLVED, Interval(float("nan")))
    by_seed = tuple(c.measured[SOLVED].value for c in alone if c.measured)
    return Row(cell.name, SOLVED, value, by_seed, _within(value, FLAT_MARGIN))


def _few_answers(cell: CellData) -> list[Row]:
    """Turnover at the budget of the ensembles: many answers solve whatever can be solved at all."""
    claim = judge_turnover(cell.sweep, cell.bootstrap, cell.budget)
    alone = [
        judge_turnover(t, CrossedBootstrap.of(len(t.problem_ids), 1), cell.budget)
        for t in map(alphas_of, cell.alphas)
    ]
    held, reason = _agreed(claim.held, [c.held for c in alone], cell.seeds, claim.reason)
    return [
        replace(row, name=f"at {cell.budget} answers: {row.name}")
        for row in _rows_of(cell, claim, alone, held, reason)
    ]


def _agreed(
    together: bool | None, alone: Sequence[bool | None], seeds: Sequence[int], reason: str
) -> tuple[bool | None, str]:
    """A claim that holds for all seeds together must not fail for one of them."""
    against = [seed for seed, held in zip(seeds, alone) if together is True and held is False]
    if against:
        return None, "; ".join(filter(None, [f"seed {', '.join(map(str, against))} alone disagrees", reason]))
    return together, reason


Rule = Callable[[Interval], bool | None]


def _within(value: Interval, margin: float) -> bool | None:
    """Whether a number is nought, up to a margin: False when all of its interval lies outside."""
    if not value.known:
        return None
    if -margin < value.low and value.high < margin:
        return True
    return False if value.low > margin or value.high < -margin else None


def _near(distance: Interval) -> bool | None:
    """On the curve, on either side of it."""
    return _within(distance, SEGMENT_MARGIN)


def _outward(distance: Interval) -> bool | None:
    return exceeds(distance, LEAST_BEYOND)


def _distances(cell: CellData, start: str, between: tuple[float, float], rule: Rule) -> list[Row]:
    """How far the variants lie from the curve of the averages between two alphas."""
    rows = []
    for label in cell.labels(start):
        values = [
            distance_to_curve(alphas_of(a), v, label, between, Bootstrap.over(len(a.problem_ids)))
            for a, v in zip(cell.alphas, cell.variants)
        ]
        together = distance_to_curve(cell.sweep, cell.beside, label, between, cell.bootstrap)
        held, reason = _agreed(rule(together), [rule(v) for v in values], cell.seeds, "")
        if cell.claims["coverage"][0].held is not True:
            held, reason = None, "the trained ends do not differ as claimed, so there is no curve to lie on"
        name = f"{label}: distance to the curve of the averages (positive: better)"
        rows.append(Row(cell.name, name, together, tuple(v.value for v in values), held, reason))
    return rows


def _stable(cell: CellData) -> list[Row]:
    """At the outermost alphas of [-0.5, 1.5] against the endpoint of that side: format errors rise by less
    than `LEAST_ENDS` and the solve rate falls by less than `FLAT_MARGIN`."""
    rows = []
    alphas = [a for a in cell.sweep.alphas if STABLE[0] <= a <= STABLE[1]]
    for alpha, end in ((alphas[0], LOW), (alphas[-1], HIGH)):
        if alpha == end:
            continue
        for outcome, sign, most in (
            (Outcome.FORMAT_ERROR, 1, LEAST_ENDS),
            (Outcome.CORRECT, -1, FLAT_MARGIN),
        ):

            def change(t: Counts, b: Bootstrap, o: Outcome = outcome, s: int = sign) -> Interval:
                rate = t.rate(o)
                return b.mean(s * (rate[t.at(alpha)] - rate[t.at(end)]))  # noqa: B023

            value = change(cell.sweep, cell.bootstrap)
            seeds = [change(t, Bootstrap.over(len(t.problem_ids))).value for t in map(alphas_of, cell.alphas)]
            held = (
                None
                if not value.known
                else True
                if value.high < most
                else False
                if value.low > most
                else None
            )
            what = "format errors added" if sign > 0 else "solve rate lost"
            rows.append(Row(cell.name, f"{what} at alpha {alpha:g}", value, tuple(seeds), held))
    return rows


def _controls(cell: CellData) -> list[Row]:
    """The trained checkpoints with extrapolated alphas against those with controls of one kind."""
    alone = [compare_controls(t, Bootstrap.over(len(t.problem_ids)), cell.budget) for t in cell.alphas]
    rows = []
    for i, found in enumerate(compare_controls(cell.together, cell.bootstrap, cell.budget)):
        name = f"pass@{found.budget}: extrapolated - {found.kind} controls, each with the trained two"
        seeds = tuple(seed[i].gain.value for seed in alone)
        rows.append(Row(cell.name, name, found.gain, seeds, exceeds(found.gain, LEAST_PASS)))
    return rows


def _fixing(cell: CellData) -> list[Row]:
    rows = _distances(cell, "online fixing", STABLE, _outward)
    for label in cell.labels("online fixing"):
        own = next(i for i, member in enumerate(cell.beside.members) if member.label == label)

        def gain(table: Counts, beside: Counts, bootstrap: Bootstrap, own: int = own) -> Interval:
            solved = Outcome.CORRECT
            return bootstrap.mean(beside.rate(solved)[own] - table.rate(solved)[table.at(HIGH)])

        value = gain(cell.sweep, cell.beside, cell.bootstrap)
        seeds = [
            gain(a, v, Bootstrap.over(len(a.problem_ids))).value
            for a, v in zip(map(alphas_of, cell.alphas), cell.variants)
        ]
        name = f"{label}: solve rate - that of the high checkpoint"
        rows.append(Row(cell.name, name, value, tuple(seeds), exceeds(value, LEAST_BEYOND)))
    if cell.fix_rate is not None:
        value, by_seed = cell.fix_rate
        name = "fix rate, second half of training - first half"
        rows.append(Row(cell.name, name, value, by_seed, exceeds(value, LEAST_BEYOND)))
    return rows
