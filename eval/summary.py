"""The results of a sweep as one JSON object: the same samples always give the same bytes.

Holds no time stamp, no path and no NaN (what does not exist is null); keys are sorted and floats are
rounded to 10 significant digits, which hides the last bits that differ between machines.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cef_env.eval.analysis import SplitAnalysis, analyse, budget_grid
from cef_env.eval.counts import CAUSES, OUTCOMES
from cef_env.eval.intervals import Interval
from cef_env.eval.records import Sample
from cef_env.eval.verdicts import Claim
from cef_env.files import write_json

DIGITS = 10


def summarise(
    samples: Iterable[Sample], meta: Mapping[str, Any] | None = None, seed: int = 0
) -> dict[str, Any]:
    """Analyse samples and return the summary. `meta`: JSON values that say what was run; kept as given."""
    return summary_of(analyse(samples, seed), meta)


def summary_of(splits: Mapping[str, SplitAnalysis], meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The summary of results that are already computed."""
    rounded: dict[str, Any] = clean(
        {"meta": dict(meta or {}), "splits": {s: _split(a) for s, a in splits.items()}}
    )
    return rounded


def write_summary(summary: Mapping[str, Any], path: Path) -> None:
    """Write `summary` as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, summary)


def clean(value: Any) -> Any:
    """Plain JSON values: floats rounded, NaN and infinity null, mappings sorted by key."""
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0 if math.isfinite(value) else None
    if isinstance(value, Interval):
        return {"value": clean(value.value), "low": clean(value.low), "high": clean(value.high)}
    if isinstance(value, Mapping):
        return {str(k): clean(v) for k, v in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, Iterable):
        return [clean(v) for v in value]
    raise TypeError(f"{type(value).__name__} cannot be part of a summary")


def _split(split: SplitAnalysis) -> dict[str, Any]:
    counts, found = split.counts, split.frontier
    k_grid = budget_grid(int(counts.n.min()))
    rows = list(enumerate(counts.alphas))
    return {
        "problems": len(counts.problem_ids),
        "answers": {"least": int(counts.n.min()), "most": int(counts.n.max()), "total": int(counts.n.sum())},
        "alphas": counts.alphas,
        "incomplete_alphas": counts.incomplete,
        "rates": [{"alpha": p.alpha, **{o.value: p.rates[o] for o in OUTCOMES}} for p in found.points],
        "format_error_causes": [
            {"alpha": a, **{c.value: int(counts.causes[i, :, j].sum()) for j, c in enumerate(CAUSES)}}
            for i, a in rows
        ],
        "tokens_per_answer": [
            {"alpha": a, "mean": float(counts.tokens[i].sum() / counts.n[i].sum())} for i, a in rows
        ],
        "slopes": [{"outcome": s.outcome.value, "over": s.over, "slope": s.estimate} for s in found.slopes],
        "reach": [vars(r) for r in found.reach],
        "pass_at_k": [
            {
                "label": c.label,
                "alphas": c.alphas,
                "values": {k: c.values[c.budgets.index(k)] for k in k_grid},
            }
            for c in (*split.singles, *split.pools)
        ],
        "turnover": [vars(t) for t in split.turnovers],
        "jaccard": None if split.jaccard is None else split.jaccard.tolist(),
        "ensembles": _ensembles(split),
        "claims": {c.id: _claim(c) for c in split.claims},
    }


def _claim(claim: Claim) -> dict[str, Any]:
    return {"paper": claim.paper, "held": claim.held, "measured": claim.measured, "reason": claim.reason}


def _ensembles(split: SplitAnalysis) -> dict[str, Any] | None:
    found = split.ensembles
    if found is None:
        return None
    choices = {"single": found.single, "trained": found.trained, "extended": found.extended}
    if found.interpolated is not None:
        choices["interpolated"] = found.interpolated
    return {
        "budget": found.budget,
        **{
            n: {"pool": c.pool, "pass": c.pass_at_budget, "chosen_on_all": c.usual}
            for n, c in choices.items()
        },
        "gain_over_single": found.gain_over_single,
        "gain_over_interpolated": found.gain_over_interpolated,
    }
