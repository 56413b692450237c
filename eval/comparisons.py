"""Controls as members of a pool: do extrapolated members help more than displaced or hotter ones?

Sets are fixed in advance and share one budget: the two trained checkpoints with the extrapolated alphas of
[-0.5, 1.5], against the two trained checkpoints with the controls of one kind. Nothing is chosen on the data.
"""

from dataclasses import dataclass

import numpy as np

from cef_env.eval.counts import OUTCOMES, Counts
from cef_env.eval.ensembles import Solver, default_budget
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.records import Member
from cef_env.eval.shape import HIGH, LOW, STABLE
from cef_env.judge.types import Outcome


@dataclass(frozen=True)
class MemberRates:
    """Outcomes of one member, alpha or control."""

    member: Member
    rates: dict[Outcome, Interval]
    tokens: float
    """Per answer."""


@dataclass(frozen=True)
class ControlComparison:
    """Extrapolated members against one kind of control, at one budget."""

    kind: str
    """First word of the controls' labels, such as `random` or `temperature`."""
    controls: tuple[str, ...]
    alphas: tuple[float, ...]
    """The extrapolated ones; of `random A` controls only the alphas A that they imitate."""
    budget: int
    extrapolated: Interval
    """pass@budget of the trained checkpoints with `alphas`."""
    control: Interval
    """pass@budget of the trained checkpoints with `controls`."""
    gain: Interval
    """extrapolated - control, paired over problems."""


def member_rates(counts: Counts, bootstrap: Bootstrap) -> tuple[MemberRates, ...]:
    """Of every member of `counts`."""
    by_outcome = {o: bootstrap.means(counts.rate(o)) for o in OUTCOMES}
    return tuple(
        MemberRates(
            m, {o: by_outcome[o][i] for o in OUTCOMES}, float(counts.tokens[i].sum() / counts.n[i].sum())
        )
        for i, m in enumerate(counts.members)
    )


def compare_controls(
    counts: Counts, bootstrap: Bootstrap, budget: int | None = None
) -> tuple[ControlComparison, ...]:
    """One comparison per kind of control; none without both trained checkpoints and an extrapolated alpha.

    `budget`: answers to one problem; by default half of those drawn.
    """
    labels = [m.label for m in counts.members if m.alpha is None]
    outer = [a for a in counts.alphas if STABLE[0] <= a <= STABLE[1] and not LOW <= a <= HIGH]
    if not labels or not outer or LOW not in counts.alphas or HIGH not in counts.alphas:
        return ()
    budget = default_budget(counts) if budget is None else budget
    solver = Solver(counts, budget)
    ends = [counts.at(LOW), counts.at(HIGH)]
    found = []
    for kind in dict.fromkeys(label.split(" ")[0] for label in labels):
        mine = [label for label in labels if label.split(" ")[0] == kind]
        alphas = outer
        if kind == "random":
            alphas = [a for a in outer if f"random {a:g}" in mine]
            mine = [f"random {a:g}" for a in alphas]
        if not mine or int(counts.n.min()) < 2:
            continue
        rows = [counts.members.index(Member(None, label)) for label in mine]
        ours, theirs = solver([*ends, *map(counts.at, alphas)]), solver([*ends, *rows])
        values = bootstrap.means(np.stack([ours, theirs, ours - theirs]))
        found.append(ControlComparison(kind, tuple(mine), tuple(alphas), budget, *values))
    return tuple(found)
