"""Computes everything about a sweep once, so that summary, report, figures and terminal agree.

from cef_env.eval import analyse, read_tables
analyse(read_tables("runs/sweep"))["hard"].claims
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.allocation import Allocation, allocation
from cef_env.eval.claims import judge_claims
from cef_env.eval.comparisons import ControlComparison, MemberRates, compare_controls, member_rates
from cef_env.eval.counts import Counts, Tables, tabulate
from cef_env.eval.ensembles import FOLDS, EnsembleComparison, compare_ensembles
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.nested import nested_pass_at_k
from cef_env.eval.passk import ensemble_pass_at_k, pass_at_k
from cef_env.eval.pools import OnlyOuter, only_outer
from cef_env.eval.records import Sample
from cef_env.eval.shape import HIGH, LOW, STABLE
from cef_env.eval.sweep import Frontier, frontier
from cef_env.eval.turnover import Turnover, jaccard_matrix, turnover
from cef_env.eval.verdicts import Claim

Floats = NDArray[np.float64]

EASY_FIRST = ("easy", "medium", "hard")
"""Order of the difficulties that most sources know."""


@dataclass(frozen=True, eq=False)
class Curve:
    """pass@k over a grid of budgets, mean over problems."""

    label: str
    alphas: tuple[float, ...]
    """One for a single checkpoint, none for a control; several for a pool that splits the budget evenly."""
    budgets: tuple[int, ...]
    values: tuple[Interval, ...]


@dataclass(frozen=True, eq=False)
class SplitAnalysis:
    """Everything about one split."""

    counts: Counts
    """Alphas only; no row when controls alone were sampled."""
    members: Counts
    """Alphas and controls."""
    frontier: Frontier
    difficulties: dict[str, Frontier]
    """The same by difficulty, where the problems are of several."""
    singles: tuple[Curve, ...]
    """One per alpha."""
    pools: tuple[Curve, ...]
    """Fixed in advance (trained, inside [0, 1], inside [-0.5, 1.5]): nothing was chosen on the data."""
    controls: tuple[MemberRates, ...]
    control_curves: tuple[Curve, ...]
    """One per control."""
    comparisons: tuple[ControlComparison, ...]
    """Extrapolated members against each kind of control."""
    nested: tuple[Interval, ...]
    """pass@k of each alpha at half the answers, with nested intervals; empty with fewer than 2 answers."""
    jaccard: Floats | None
    """Shape (A, A), see `jaccard_matrix`; None with fewer than 2 answers to some problem."""
    turnovers: tuple[Turnover, ...]
    """Outermost stable alphas, and low against high, where they were sampled."""
    only_outer: OnlyOuter | None
    """Problems that only extrapolated alphas solve; None without any, or with fewer than 2 answers."""
    ensembles: EnsembleComparison | None
    """None with too few problems or answers, or without both endpoints."""
    allocation: Allocation | None
    """As `ensembles`."""
    claims: tuple[Claim, ...]
    missing: dict[str, str]
    """Name of each statistic above that does not exist here -> the reason."""


def analyse(samples: Iterable[Sample] | Tables, seed: int = 0) -> dict[str, SplitAnalysis]:
    """All statistics by split. `seed` drives the bootstrap and the folds; equal input gives equal output.

    Raises `UserError` when there is no sample, or when no member of a split is complete.
    """
    tables = samples if isinstance(samples, Mapping) else tabulate(samples)
    if not tables:
        raise UserError("there is no sample to analyse; draw samples first")
    return {split: _analyse_split(counts, seed) for split, counts in tables.items()}


def _analyse_split(members: Counts, seed: int) -> SplitAnalysis:
    counts = members.only(lambda member: member.alpha is not None) or members.only_rows([])
    controls = members.only(lambda member: member.alpha is None)
    problems = len(members.problem_ids)
    bootstrap = Bootstrap.over(problems, seed)
    least = int(members.n.min())
    missing: dict[str, str] = {}
    both_ends = LOW in counts.alphas and HIGH in counts.alphas
    comparison = shares = None
    if not both_ends:
        missing["ensembles"] = missing["shape"] = "alpha 0 and alpha 1 were not both sampled"
    elif least < 4 or problems < FOLDS:
        missing["ensembles"] = f"needs {FOLDS} problems and 4 answers to each"
    else:
        comparison = compare_ensembles(counts, bootstrap, seed=seed)
        shares = allocation(counts, bootstrap, comparison.budget, seed)
        if comparison.gain_over_interpolated is None:
            missing["interpolated"] = "needs alphas strictly inside [0, 1] and outside it"
    if "ensembles" in missing:
        missing["allocation"] = missing["ensembles"]
    stable = [a for a in counts.alphas if STABLE[0] <= a <= STABLE[1]]
    pairs = {(stable[0], stable[-1])} if len(stable) > 1 else set()
    if both_ends:
        pairs.add((LOW, HIGH))
    twice = least >= 2 and bool(counts.alphas)
    matrix = jaccard_matrix(counts) if twice else None
    if matrix is None:
        missing["jaccard"] = missing["turnover"] = "needs an alpha, and 2 answers to every problem"
    elif np.isnan(matrix).any():
        missing["jaccard"] = "null where neither alpha of a pair solves any problem"
    outer = only_outer(counts, bootstrap) if twice else None
    if outer is None:
        missing["only_outer"] = "needs alphas inside and outside [0, 1], and 2 answers to every problem"
    return SplitAnalysis(
        counts=counts,
        members=members,
        frontier=frontier(counts, seed),
        difficulties=_by_difficulty(counts, seed),
        singles=_singles(counts, bootstrap),
        pools=_pools(counts, bootstrap),
        controls=() if controls is None else member_rates(controls, bootstrap),
        control_curves=() if controls is None else _singles(controls, bootstrap),
        comparisons=compare_controls(members, bootstrap),
        nested=tuple(nested_pass_at_k(counts, least // 2, seed)) if twice else (),
        jaccard=matrix,
        turnovers=tuple(turnover(counts, a, b, bootstrap) for a, b in sorted(pairs)) if twice else (),
        only_outer=outer,
        ensembles=comparison,
        allocation=shares,
        claims=_claims(counts, seed, comparison),
        missing=missing,
    )


def _claims(counts: Counts, seed: int, comparison: EnsembleComparison | None) -> tuple[Claim, ...]:
    if not counts.alphas:
        return ()
    return tuple(judge_claims([counts], seed, {} if comparison is None else {counts.split: comparison}))


def _by_difficulty(counts: Counts, seed: int) -> dict[str, Frontier]:
    found = {d for d in counts.difficulties if d}
    order = sorted(found, key=lambda d: (EASY_FIRST.index(d) if d in EASY_FIRST else len(EASY_FIRST), d))
    if len(found) < 2:
        return {}
    return {difficulty: frontier(counts.of_difficulty(difficulty), seed) for difficulty in order}


def budget_grid(most: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50, ..., then `most`; without those so near to `most` that they would say the same."""
    grid = [m * 10**e for e in range(len(str(most))) for m in (1, 2, 5)]
    return (*[k for k in grid if k <= 0.7 * most], most)


def _fine_grid(most: int) -> tuple[int, ...]:
    """`budget_grid` with enough points between to draw a smooth curve on a logarithmic axis."""
    between = {int(k) for k in np.geomspace(1, most, 25).round()}
    return tuple(sorted(between | set(budget_grid(most))))


def _singles(counts: Counts, bootstrap: Bootstrap) -> tuple[Curve, ...]:
    if not counts.members:
        return ()
    budgets = _fine_grid(int(counts.n.min()))
    curves = []
    for i, member in enumerate(counts.members):
        table = np.asarray(pass_at_k(counts.n[i], counts.correct[i], np.array(budgets)[:, None]))
        alphas = () if member.alpha is None else (member.alpha,)
        curves.append(Curve(member.name, alphas, budgets, tuple(bootstrap.means(table))))
    return tuple(curves)


def _pools(counts: Counts, bootstrap: Bootstrap) -> tuple[Curve, ...]:
    inside = tuple(a for a in counts.alphas if LOW <= a <= HIGH)
    stable = tuple(a for a in counts.alphas if STABLE[0] <= a <= STABLE[1])
    wanted = [
        ("trained checkpoints", tuple(a for a in (LOW, HIGH) if a in counts.alphas)),
        ("all alphas in [0, 1]", inside),
        ("all alphas in [-0.5, 1.5]", stable),
    ]
    curves = []
    seen: set[tuple[float, ...]] = set()
    for label, members in wanted:
        if len(members) < 2 or members in seen:
            continue
        seen.add(members)
        rows = [counts.at(a) for a in members]
        budgets = _fine_grid(int(counts.n.min()))
        table = np.stack([ensemble_pass_at_k(counts.n[rows], counts.correct[rows], k) for k in budgets])
        curves.append(Curve(label, members, budgets, tuple(bootstrap.means(table))))
    return tuple(curves)
