"""The results of a sweep as one JSON object: the same samples always give the same bytes.

Holds no time stamp, no path and no NaN (what does not exist is null, with a reason beside it); keys are
sorted and floats are rounded to 10 significant digits, which hides last bits that differ between machines.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from cef_env.eval.analysis import SplitAnalysis, analyse, budget_grid
from cef_env.eval.counts import CAUSES, OUTCOMES, Tables
from cef_env.eval.intervals import Interval
from cef_env.eval.records import Member, Sample
from cef_env.eval.sweep import Frontier
from cef_env.eval.verdicts import Claim
from cef_env.files import write_json

DIGITS = 10


def summarise(
    samples: Iterable[Sample] | Tables, meta: Mapping[str, Any] | None = None, seed: int = 0
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
        numbers = {"value": clean(value.value), "low": clean(value.low), "high": clean(value.high)}
        return numbers | {"reason": value.reason} if value.reason else numbers
    if isinstance(value, Member):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        return clean({f.name: getattr(value, f.name) for f in fields(value)})
    if isinstance(value, Mapping):
        return {str(k): clean(v) for k, v in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, Iterable):
        return [clean(v) for v in value]
    raise TypeError(f"{type(value).__name__} cannot be part of a summary")


def _split(split: SplitAnalysis) -> dict[str, Any]:
    members, counts = split.members, split.counts
    k_grid = budget_grid(int(members.n.min()))
    rows = list(enumerate(counts.alphas))
    return {
        "problems": len(members.problem_ids),
        "answers": {
            "least": int(members.n.min()),
            "most": int(members.n.max()),
            "total": int(members.n.sum()),
        },
        "alphas": counts.alphas,
        "controls": [
            {
                "label": c.member.label,
                "tokens_per_answer": c.tokens,
                **{o.value: c.rates[o] for o in OUTCOMES},
            }
            for c in split.controls
        ],
        "left_out": members.left_out,
        **_frontier(split.frontier),
        "difficulties": {name: _frontier(found) for name, found in split.difficulties.items()},
        "format_error_causes": [
            {"alpha": a, **{c.value: int(counts.causes[i, :, j].sum()) for j, c in enumerate(CAUSES)}}
            for i, a in rows
        ],
        "tokens_per_answer": [
            {"alpha": a, "mean": float(counts.tokens[i].sum() / counts.n[i].sum())} for i, a in rows
        ],
        "pass_at_k": [
            {
                "label": c.label,
                "alphas": c.alphas,
                "values": {k: c.values[c.budgets.index(k)] for k in k_grid if k in c.budgets},
            }
            for c in (*split.singles, *split.control_curves, *split.pools)
        ],
        "nested_pass_at_half": dict(zip(map(str, counts.alphas), split.nested)),
        "turnover": split.turnovers,
        "jaccard": None if split.jaccard is None else split.jaccard.tolist(),
        "only_outer": split.only_outer,
        "ensembles": split.ensembles,
        "allocation": split.allocation,
        "control_comparisons": split.comparisons,
        "claims": {c.id: _claim(c) for c in split.claims},
        "missing": split.missing,
    }


def _frontier(found: Frontier) -> dict[str, Any]:
    return {
        "rates": [{"alpha": p.alpha, **{o.value: p.rates[o] for o in OUTCOMES}} for p in found.points],
        "slopes": [{"outcome": s.outcome.value, "over": s.over, "slope": s.estimate} for s in found.slopes],
        "reach": found.reach,
        "shape": found.shape,
    }


def _claim(claim: Claim) -> dict[str, Any]:
    return {"paper": claim.paper, "held": claim.held, "measured": claim.measured, "reason": claim.reason}
