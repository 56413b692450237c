"""Computes everything about a sweep once, so that summary, report, figures and terminal agree.

from cef_env.eval import analyse, read_tables
analyse(read_tables("runs/sweep"))["hard"].claims
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.claims import judge_claims
from cef_env.eval.counts import Counts, Tables, tabulate
from cef_env.eval.ensembles import FOLDS, EnsembleComparison, compare_ensembles
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.passk import ensemble_pass_at_k, pass_at_k
from cef_env.eval.records import Sample
from cef_env.eval.sweep import HIGH, LOW, STABLE, Frontier, frontier
from cef_env.eval.turnover import Turnover, jaccard_matrix, turnover
from cef_env.eval.verdicts import Claim

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """pass@k over a grid of budgets, mean over problems."""

    label: str
    alphas: tuple[float, ...]
    """One for a single checkpoint; several for a pool that splits the budget evenly."""
    budgets: tuple[int, ...]
    values: tuple[Interval, ...]


@dataclass(frozen=True, eq=False)
class SplitAnalysis:
    """Everything about one split."""

    counts: Counts
    frontier: Frontier
    singles: tuple[Curve, ...]
    """One per alpha."""
    pools: tuple[Curve, ...]
    """Fixed in advance (trained, inside [0, 1], inside [-0.5, 1.5]): nothing was chosen on the data."""
    jaccard: Floats | None
    """Shape (A, A), see `jaccard_matrix`; None with fewer than 2 answers to some problem."""
    turnovers: tuple[Turnover, ...]
    """Outermost stable alphas, and low against high, where they were sampled."""
    ensembles: EnsembleComparison | None
    """None with too few problems or answers, or without both endpoints."""
    claims: tuple[Claim, ...]


def analyse(samples: Iterable[Sample] | Tables, seed: int = 0) -> dict[str, SplitAnalysis]:
    """All statistics by split. `seed` drives the bootstrap and the folds; equal input gives equal output.

    Raises `UserError` when there is no sample, or when no member of a split is complete.
    """
    tables = samples if isinstance(samples, Mapping) else tabulate(samples)
    if not tables:
        raise UserError("there is no sample to analyse; draw samples first")
    return {split: _analyse_split(counts, seed) for split, counts in tables.items()}


def _analyse_split(counts: Counts, seed: int) -> SplitAnalysis:
    bootstrap = Bootstrap.over(len(counts.problem_ids), seed)
    least = int(counts.n.min())
    both_ends = LOW in counts.alphas and HIGH in counts.alphas
    comparison = None
    if both_ends and least >= 4 and len(counts.problem_ids) >= FOLDS:
        comparison = compare_ensembles(counts, bootstrap, seed=seed)
    stable = [a for a in counts.alphas if STABLE[0] <= a <= STABLE[1]]
    pairs = {(stable[0], stable[-1])} if len(stable) > 1 else set()
    if both_ends:
        pairs.add((LOW, HIGH))
    return SplitAnalysis(
        counts,
        frontier(counts, seed),
        _singles(counts, bootstrap),
        _pools(counts, bootstrap),
        jaccard_matrix(counts) if least >= 2 else None,
        tuple(turnover(counts, a, b, bootstrap) for a, b in sorted(pairs)) if least >= 2 else (),
        comparison,
        tuple(judge_claims([counts], seed, {} if comparison is None else {counts.split: comparison})),
    )


def budget_grid(most: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50, ..., then `most`; without those so near to `most` that they would say the same."""
    grid = [m * 10**e for e in range(len(str(most))) for m in (1, 2, 5)]
    return (*[k for k in grid if k <= 0.7 * most], most)


def _fine_grid(most: int) -> tuple[int, ...]:
    """`budget_grid` with enough points between to draw a smooth curve on a logarithmic axis."""
    between = {int(k) for k in np.geomspace(1, most, 25).round()}
    return tuple(sorted(between | set(budget_grid(most))))


def _singles(counts: Counts, bootstrap: Bootstrap) -> tuple[Curve, ...]:
    budgets = _fine_grid(int(counts.n.min()))
    curves = []
    for i, alpha in enumerate(counts.alphas):
        table = np.asarray(pass_at_k(counts.n[i], counts.correct[i], np.array(budgets)[:, None]))
        curves.append(Curve(f"alpha {alpha:g}", (alpha,), budgets, tuple(bootstrap.means(table))))
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
