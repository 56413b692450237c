"""The statistics behind a page that no claim leads with, in groups that unfold. Computes nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cef_env.eval.analysis import SplitAnalysis
from cef_env.eval.ensembles import Choice, EnsembleComparison
from cef_env.eval.figures import ALPHA, number, words
from cef_env.eval.intervals import Interval
from cef_env.eval.shape import Shape
from cef_env.judge.types import Outcome

LISTED = 12
"""Problems that are named."""
Rows = tuple[tuple[str, Interval | str], ...]


@dataclass(frozen=True)
class Group:
    """Some numbers under one heading."""

    title: str
    note: str
    """What they mean, in a sentence."""
    rows: Rows


def further(split: SplitAnalysis) -> list[Group]:
    """Every group that the data of a split allow; what is missing is named in the last one."""
    groups = [
        *_shape(split.frontier.shape),
        *(_ensembles(split.ensembles) if split.ensembles else ()),
        *_allocation(split),
        *_only_outer(split),
        *_controls(split),
        *_difficulties(split),
        *_nested(split),
    ]
    if split.missing:
        rows = tuple((name.replace("_", " "), reason) for name, reason in split.missing.items())
        groups.append(Group("What could not be computed", "", rows))
    return groups


def _shape(shape: Shape) -> Iterable[Group]:
    rows: Rows
    if shape.beyond:
        rows = tuple((f"{ALPHA} = {number(b.alpha)}", b.share) for b in shape.beyond)
        note = "From low to high, past the nearer end; 0.5: half as far again as training moved."
        yield Group("How far outside", note, rows)
    area = shape.hypervolume
    if area is not None:
        note = (
            "Share of the plane of the two failures, each with format errors, that some checkpoint beats. "
            f"More points never enclose less; chance alone would add about {area.optimism:.3f}."
        )
        rows = (
            ("trained", area.trained), ("in [0, 1]", area.interpolated), ("in [-0.5, 1.5]", area.extended),
            ("gain by extrapolating", area.gain),
        )  # fmt: skip
        yield Group("Area that the frontier dominates", note, rows)
    if shape.stable is not None:
        note = f"Around [0, 1], where at most {shape.stable.limit:.0%} of the answers are format errors."
        rows = (
            ("by the rates", _range(shape.stable.likely)),
            ("by their upper ends", _range(shape.stable.sure)),
        )
        yield Group("Stable range", note, rows)
    flat = shape.flatness
    if flat is not None:
        note = f"Whether all solve rates in [-0.5, 1.5] lie within {flat.margin:g} of each other (TOST)."
        pair = " and ".join(number(a) for a in flat.pair)
        answer = "shown" if flat.equivalent else "not shown, which proves nothing"
        rows = (
            (f"largest difference, {pair}", flat.largest),
            ("equivalence", f"{answer} (p = {flat.p_value:.3g})"),
        )
        yield Group("Equal solve rates", note, rows)


def _ensembles(found: EnsembleComparison) -> Iterable[Group]:
    choices: list[tuple[str, Choice | None]] = [
        ("best single", found.single), ("best trained checkpoint", found.trained),
        ("best set in [0, 1]", found.interpolated), ("best set of all, no larger", found.extended_equal),
        ("best set of all", found.extended),
    ]  # fmt: skip
    rows: list[tuple[str, Interval | str]] = []
    for name, choice in choices:
        if choice is not None:
            rows.append((f"{name}: {_set(choice.usual)}", choice.pass_at_budget))
            rows.append((f"{name}, if measured on what chose it", Interval(choice.naive)))
    rows += [
        ("all alphas, evenly", found.everyone), ("gain by splitting alone", found.splitting),
        ("best set of all - best single", found.gain_over_single),
    ]  # fmt: skip
    if found.gain_over_interpolated is not None:
        rows.append(("best set of all, no larger - best set in [0, 1]", found.gain_over_interpolated))
    note = "Chosen on four fifths of the problems and measured on the last; named: what all problems choose."
    yield Group(f"Ensembles, pass@{found.budget}", note, tuple(rows))


def _allocation(split: SplitAnalysis) -> Iterable[Group]:
    found = split.allocation
    if found is not None:
        shares = ", ".join(f"{k} from {number(alpha)}" for alpha, k in found.shares)
        rows: Rows = (
            ("best shares", shares), (f"pass@{found.budget}", found.pass_at_budget),
            ("gain over an even split", found.gain_over_even),
        )  # fmt: skip
        yield Group("Budget shared unevenly", "Shares found by greedy and swaps, cross-fitted.", rows)


def _only_outer(split: SplitAnalysis) -> Iterable[Group]:
    found = split.only_outer
    if found is not None:
        named = ", ".join(id_ for id_, _ in found.problems[:LISTED]) or "none"
        more = len(found.problems) - LISTED
        rows: Rows = (
            ("solved outside only, share of problems", found.share),
            ("the same for two draws inside", found.null), ("beyond that", found.excess),
            ("never solved inside", named + (f" and {more} more" if more > 0 else "")),
        )  # fmt: skip
        note = f"{found.budget} answers from {_set(found.outer)} against as many from {_set(found.inner)}."
        yield Group("Problems that only extrapolation solves", note, rows)


def _controls(split: SplitAnalysis) -> Iterable[Group]:
    for found in split.comparisons:
        note = f"The trained checkpoints with {_set(found.alphas)}, or with {', '.join(found.controls)}."
        rows = (
            (f"pass@{found.budget} with extrapolated", found.extrapolated),
            (f"pass@{found.budget} with controls", found.control), ("extrapolated - controls", found.gain),
        )  # fmt: skip
        yield Group(f"Control: {found.kind}", note, rows)


def _difficulties(split: SplitAnalysis) -> Iterable[Group]:
    for name, frontier in split.difficulties.items():
        rows = tuple(
            (f"{words(s.outcome)}s" if s.outcome is not Outcome.CORRECT else "solve rate", s.estimate)
            for s in frontier.slopes
            if s.over == (0.0, 1.0)
        )
        if rows:
            note = "Change from low to high, by the slope within each problem."
            yield Group(f"Difficulty: {name}", note, rows)


def _nested(split: SplitAnalysis) -> Iterable[Group]:
    if split.nested:
        k = int(split.counts.n.min()) // 2
        pairs = zip(split.counts.alphas, split.nested, strict=True)
        rows = tuple((f"{ALPHA} = {number(a)}", x) for a, x in pairs)
        note = "Intervals over problems and over answers."
        yield Group(f"pass@{k} of each alpha", note, rows)


def _set(alphas: Sequence[float]) -> str:
    return "{" + ", ".join(map(number, alphas)) + "}"


def _range(ends: tuple[float, float] | None) -> str:
    return "none: [0, 1] itself is not stable" if ends is None else f"{number(ends[0])} to {number(ends[1])}"
