"""The claims as a page shows them: one line each, with one number that says most, the rest folded away.

Does not judge claims: see `claims.py`. Which number leads was fixed with the claims, not by its size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cef_env.eval.analysis import SplitAnalysis
from cef_env.eval.intervals import Interval
from cef_env.eval.verdicts import MOST, PAPER, Claim

TITLES = {
    "coverage": "More coverage trades one failure for the other",
    "interpolation": "Averages inside [0, 1] walk between the two",
    "extrapolation": "Averages outside continue beyond both",
    "breakdown": "Far outside, format errors take over",
    "breakdown_cause": "Those answers ran out of tokens",
    "turnover": "Different alphas solve different problems",
    "ensemble": "An ensemble beats the best single alpha",
    "extended_pool": "Extrapolated members make it better",
    "flat": "The solve rate stays nearly the same",
}
"""Claim id -> the claim in a few words; `PAPER` has it in full."""
LEADING = {
    "interpolation": "point furthest behind",
    "breakdown": "format errors added",
    "turnover": "solved by",
    "ensemble": "ensemble - single",
    "extended_pool": "all - inside",
}
"""Start of the name of the number that says most, where it is not the first; of several the smallest."""
REFERENCE = {"breakdown_cause": MOST}
"""What the leading number is held against, where it is not zero."""
VERDICT_MARKS = {True: "✓", False: "✕", None: "?"}
VERDICT_WORDS = {True: "held", False: "did not hold", None: "cannot tell"}
VERDICT_CLASSES = {True: "held", False: "fell", None: "open"}


@dataclass(frozen=True)
class Glyph:
    """An interval drawn on an axis from 0 to 100, with the reference at 50."""

    low: float
    value: float
    high: float


@dataclass(frozen=True)
class Line:
    """One claim on one split."""

    claim: Claim
    name: str
    """Of the leading number; empty when nothing was measured."""
    leading: Interval | None
    glyph: Glyph | None
    reference: float


@dataclass(frozen=True)
class ClaimGroup:
    """One claim on every split."""

    id: str
    title: str
    paper: str
    lines: tuple[Line, ...]


def claim_groups(splits: Mapping[str, SplitAnalysis]) -> list[ClaimGroup]:
    """The claims in the paper's order, each with its splits, all glyphs on one scale."""
    claims = [claim for split in splits.values() for claim in split.claims]
    numbers = [(claim, *_leading(claim)) for claim in claims]
    spread = max(
        [abs(bound - REFERENCE.get(c.id, 0.0)) for c, _, x in numbers if x for bound in _bounds(x)],
        default=0.0,
    )
    lines: dict[str, list[Line]] = {}
    for claim, name, leading in numbers:
        reference = REFERENCE.get(claim.id, 0.0)
        glyph = _glyph(leading, reference, max(spread, 0.05)) if leading else None
        lines.setdefault(claim.id, []).append(Line(claim, name, leading, glyph, reference))
    ids = [id_ for id_ in PAPER if id_ in lines] + [id_ for id_ in lines if id_ not in PAPER]
    return [ClaimGroup(i, TITLES.get(i, i), lines[i][0].claim.paper, tuple(lines[i])) for i in ids]


def tally(claims: Sequence[Claim]) -> list[tuple[str, str, int]]:
    """(class, words, how many) for each of the three verdicts."""
    held = [claim.held for claim in claims]
    return [(VERDICT_CLASSES[v], VERDICT_WORDS[v], held.count(v)) for v in (True, False, None)]


def _leading(claim: Claim) -> tuple[str, Interval | None]:
    start = LEADING.get(claim.id, "")
    found = [(name, x) for name, x in claim.measured.items() if name.startswith(start) and x.value == x.value]
    if not found:
        return "", None
    return min(found, key=lambda pair: pair[1].value) if start else found[0]


def _bounds(x: Interval) -> tuple[float, ...]:
    return (x.low, x.high) if x.known else (x.value,)


def _glyph(x: Interval, reference: float, spread: float) -> Glyph:
    def place(value: float) -> float:
        return 50 + 48 * (value - reference) / spread

    low, high = (x.low, x.high) if x.known else (x.value, x.value)
    return Glyph(*(round(place(v), 2) for v in (low, x.value, high)))
