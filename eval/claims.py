"""Each claim of the paper, the number measured for it, and whether it held in this run.

`judge_claims` answers True (held), False (did not hold) or None (cannot tell, with the reason), by the
thresholds of `verdicts.py`. One run is one training seed: a claim that held here is a claim about these
checkpoints.
"""

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from cef_env.eval.counts import Counts
from cef_env.eval.ensembles import FOLDS, EnsembleComparison, compare_ensembles
from cef_env.eval.intervals import LEVEL, Bootstrap, Interval
from cef_env.eval.shape import HIGH, LOW, STABLE
from cef_env.eval.sweep import difference
from cef_env.eval.turnover import turnover
from cef_env.eval.verdicts import (
    FAR,
    FLAT_MARGIN,
    LEAST_BEYOND,
    LEAST_ENDS,
    LEAST_PASS,
    LEAST_TURNOVER,
    MIN_PROBLEMS,
    MOST,
    PAPER,
    SEGMENT_MARGIN,
    Claim,
    all_of,
    exceeds,
    negated,
    shifted,
)
from cef_env.judge.types import FormatErrorCause, Outcome

TOO_WIDE = "the interval is too wide: more problems or more answers would tell"

OPT, COR, FMT, OK = (
    Outcome.OPTIMIZATION_FAILURE, Outcome.CORRECTNESS_FAILURE, Outcome.FORMAT_ERROR, Outcome.CORRECT
)  # fmt: skip


def judge_claims(
    tables: Iterable[Counts], seed: int = 0, comparisons: dict[str, EnsembleComparison] | None = None
) -> list[Claim]:
    """Every claim on every split. `comparisons` by split saves computing the ensembles again."""
    return [
        claim
        for counts in tables
        for claim in judge_split(
            counts,
            Bootstrap.over(len(counts.problem_ids), seed),
            seed,
            (comparisons or {}).get(counts.split),
        )
    ]


def judge_split(
    counts: Counts, bootstrap: Bootstrap, seed: int = 0, comparison: EnsembleComparison | None = None
) -> list[Claim]:
    """Every claim on one split; `bootstrap` resamples the columns of `counts`."""
    if LOW not in counts.alphas or HIGH not in counts.alphas:
        reason = "alpha 0 and alpha 1 were not both sampled"
    elif bootstrap.problems < MIN_PROBLEMS:
        reason = f"only {bootstrap.problems} problems; fewer than {MIN_PROBLEMS} decide nothing"
    else:
        reason = ""
    if reason:
        return [_claim(id_, counts, None, {}, reason) for id_ in PAPER]
    coverage = _coverage(counts, bootstrap)
    return [
        coverage,
        _interpolation(counts, bootstrap, coverage.held),
        _extrapolation(counts, bootstrap),
        *_breakdown(counts, bootstrap),
        judge_turnover(counts, bootstrap),
        *_ensembles(counts, bootstrap, seed, comparison),
        _flat(counts, bootstrap),
    ]


def _coverage(counts: Counts, bootstrap: Bootstrap) -> Claim:
    """high - low: optimization failures must fall and correctness failures must rise."""
    fall = difference(counts, bootstrap, OPT, HIGH, LOW)
    rise = difference(counts, bootstrap, COR, HIGH, LOW)
    held = all_of([exceeds(negated(fall), LEAST_ENDS), exceeds(rise, LEAST_ENDS)])
    measured = {
        "optimization failures, high - low": fall,
        "correctness failures, high - low": rise,
        "solve rate, high - low": difference(counts, bootstrap, OK, HIGH, LOW),
    }
    return _claim("coverage", counts, held, measured)


def _interpolation(counts: Counts, bootstrap: Bootstrap, moved: bool | None) -> Claim:
    """In order: no step between neighbours in [0, 1] goes the wrong way beyond noise (Bonferroni over the
    steps of both rates). On the way: no point lies further than `SEGMENT_MARGIN` behind the straight segment
    between the endpoints; a point nearer to the origin than the segment is better, and allowed."""
    inside = [a for a in counts.alphas if LOW <= a <= HIGH]
    if len(inside) < 3:
        return _claim("interpolation", counts, None, {}, "no alpha strictly between 0 and 1 was sampled")
    rows = [counts.at(a) for a in inside]
    opt, cor = counts.rate(OPT)[rows], counts.rate(COR)[rows]
    wrong_way = [*np.diff(opt, axis=0), *-np.diff(cor, axis=0)]
    level = 1 - (1 - LEVEL) / len(wrong_way)
    steps = [bootstrap.mean(step, level) for step in wrong_way]
    violated = any(step.above_zero for step in steps)
    # Signed distance of each interior point from the segment, positive towards the origin: the mean rates
    # (o, c) enter through (o - o_low, c - c_low) x (direction), divided by the segment's length.
    values = np.concatenate([opt, cor])
    behind = bootstrap.statistic(values, lambda m: _worst_distance(m, len(inside)))
    measured = {
        "largest step the wrong way": max(steps, key=lambda s: s.value),
        "point furthest behind the segment (negative: behind)": behind,
    }
    if moved is not True:
        reason = "the endpoints themselves do not differ as claimed, so there is no segment to follow"
        return _claim("interpolation", counts, None, measured, reason)
    on_the_way = exceeds(shifted(behind, SEGMENT_MARGIN), 0)
    return _claim("interpolation", counts, all_of([not violated, on_the_way]), measured)


def _worst_distance(means: np.ndarray, points: int) -> np.ndarray:
    """`means` (2 * points, draws): optimization then correctness rates, endpoints first and last."""
    opt, cor = means[:points], means[points:]
    along_o, along_c = opt[-1] - opt[0], cor[-1] - cor[0]
    length = np.hypot(along_o, along_c)
    cross = (opt[1:-1] - opt[0]) * along_c - (cor[1:-1] - cor[0]) * along_o
    # From low (many optimization failures) to high: points towards the origin have a negative cross product.
    return (-cross / np.where(length > 0, length, np.nan)).min(axis=0)


def _extrapolation(counts: Counts, bootstrap: Bootstrap) -> Claim:
    """At the outermost sampled alphas of [-0.5, 0) and (1, 1.5]: more optimization failures than low; more
    correctness failures and fewer optimization failures than high."""
    below = [a for a in counts.alphas if STABLE[0] <= a < LOW]
    above = [a for a in counts.alphas if HIGH < a <= STABLE[1]]
    measured: dict[str, Interval] = {}
    parts: list[bool | None] = []
    reasons = []
    if below:
        gain = difference(counts, bootstrap, OPT, below[0], LOW)
        measured[f"optimization failures, alpha {below[0]:g} - low"] = gain
        parts.append(exceeds(gain, LEAST_BEYOND, room=1 - _mean(counts, OPT, LOW)))
    else:
        reasons.append("no alpha in [-0.5, 0) was sampled")
    if above:
        rise = difference(counts, bootstrap, COR, above[-1], HIGH)
        fall = difference(counts, bootstrap, OPT, above[-1], HIGH)
        measured[f"correctness failures, alpha {above[-1]:g} - high"] = rise
        measured[f"optimization failures, alpha {above[-1]:g} - high"] = fall
        parts.append(exceeds(rise, LEAST_BEYOND, room=1 - _mean(counts, COR, HIGH)))
        parts.append(exceeds(negated(fall), LEAST_BEYOND, room=_mean(counts, OPT, HIGH)))
    else:
        reasons.append("no alpha in (1, 1.5] was sampled")
    held = all_of([*parts, *([None] * len(reasons))])
    return _claim("extrapolation", counts, held, measured, "; ".join(reasons))


def _breakdown(counts: Counts, bootstrap: Bootstrap) -> list[Claim]:
    """At the farthest alpha of each side outside [-0.5, 1.5], against the endpoint of that side: the solve
    rate falls, format errors rise, and the rise is more than half of the fall. Programs that do not compile
    are correctness failures here, but shown: one may count them as unparsable answers."""
    sides = [(min(counts.alphas), LOW), (max(counts.alphas), HIGH)]
    far = [(a, end) for a, end in sides if not STABLE[0] <= a <= STABLE[1]]
    if not far:
        reason = "no alpha outside [-0.5, 1.5] was sampled"
        return [_claim(id_, counts, None, {}, reason) for id_ in ("breakdown", "breakdown_cause")]
    measured: dict[str, Interval] = {}
    parts: list[bool | None] = []
    reason = ""
    broken = []
    for alpha, end in far:
        rows, base = counts.at(alpha), counts.at(end)
        lost = counts.rate(OK)[base] - counts.rate(OK)[rows]
        added = counts.rate(FMT)[rows] - counts.rate(FMT)[base]
        measured[f"solve rate lost at alpha {alpha:g}"] = falls = bootstrap.mean(lost)
        measured[f"format errors added at alpha {alpha:g}"] = rises = bootstrap.mean(added)
        garbled = counts.uncompiled[rows] / counts.n[rows] - counts.uncompiled[base] / counts.n[base]
        measured[f"programs that do not compile added at alpha {alpha:g}"] = bootstrap.mean(garbled)
        surplus = bootstrap.mean(added - MOST * lost)
        held = all_of([exceeds(falls, LEAST_ENDS), exceeds(rises, LEAST_ENDS), exceeds(surplus, 0)])
        if held is False and abs(alpha) < FAR:
            held, reason = None, f"the sweep ends before |alpha| = {FAR:g} on one side"
        parts.append(held)
        if rises.above_zero:
            broken.append(alpha)
    held = all_of(parts)
    return [_claim("breakdown", counts, held, measured, reason), _cause(counts, bootstrap, broken)]


def _cause(counts: Counts, bootstrap: Bootstrap, broken: list[float]) -> Claim:
    """Of all format errors at the far alphas where these rose, more than half ran out of tokens."""
    if not broken:
        return _claim("breakdown_cause", counts, None, {}, "format errors did not rise, so there is no cause")
    rows = [counts.at(alpha) for alpha in broken]
    errors = counts.rate(FMT)[rows].sum(axis=0)
    tokens = counts.cause_rate(FormatErrorCause.OUT_OF_TOKENS)[rows].sum(axis=0)
    share = bootstrap.statistic(np.stack([tokens, errors]), lambda m: m[0] / np.where(m[1] > 0, m[1], np.nan))
    held = exceeds(bootstrap.mean(tokens - MOST * errors), 0)
    return _claim("breakdown_cause", counts, held, {"share of format errors that ran out of tokens": share})


def judge_turnover(counts: Counts, bootstrap: Bootstrap, answers: int | None = None) -> Claim:
    """The two outermost alphas of [-0.5, 1.5]: their Jaccard index lies below the split-half null, and each
    solves problems that the other does not (a mere change of level would show on one side only).

    `answers`: to each problem, by default half of those drawn.
    """
    inside = [a for a in counts.alphas if STABLE[0] <= a <= STABLE[1]]
    if int(counts.n.min()) < 2:
        return _claim("turnover", counts, None, {}, "needs 2 answers to every problem")
    found = turnover(counts, inside[0], inside[-1], bootstrap, answers)
    names = [f"alpha {a:g}" for a in found.alphas]
    measured = {
        f"Jaccard index of solved problems, {names[0]} and {names[1]}": found.jaccard,
        "split-half null": found.null,
        "null - index": found.excess,
        f"solved by {names[0]} only, beyond chance": found.only_first,
        f"solved by {names[1]} only, beyond chance": found.only_second,
    }
    ways = [
        True if side.value > 0 else False if side.below_zero else None
        for side in (found.only_first, found.only_second)
    ]
    held = all_of([exceeds(found.excess, LEAST_TURNOVER), *ways])
    return _claim("turnover", counts, held, measured)


def _ensembles(
    counts: Counts, bootstrap: Bootstrap, seed: int, found: EnsembleComparison | None
) -> list[Claim]:
    """pass@budget of the cross-fitted best ensemble against the cross-fitted best single alpha of all, and
    against the best ensemble of members inside [0, 1]; see `ensembles.py`."""
    ids = ("ensemble", "extended_pool")
    if len(counts.problem_ids) < FOLDS or int(counts.n.min()) < 4:
        reason = f"needs {FOLDS} problems and 4 answers to each"
        return [_claim(id_, counts, None, {}, reason) for id_ in ids]
    if found is None:
        found = compare_ensembles(counts, bootstrap, seed=seed)
    at = f"pass@{found.budget}"
    measured = {
        f"{at}, best ensemble": found.extended.pass_at_budget,
        f"{at}, best single alpha": found.single.pass_at_budget,
        f"{at}, best trained checkpoint": found.trained.pass_at_budget,
        "ensemble - single": found.gain_over_single,
    }
    first = _gain("ensemble", counts, found.gain_over_single, found.single.pass_at_budget, measured)
    if found.interpolated is None or found.extended_equal is None or found.gain_over_interpolated is None:
        reason = "needs alphas strictly inside [0, 1] and outside it"
        return [first, _claim("extended_pool", counts, None, {}, reason)]
    measured = {
        f"{at}, best ensemble of all alphas, equal sizes": found.extended_equal.pass_at_budget,
        f"{at}, best ensemble inside [0, 1]": found.interpolated.pass_at_budget,
        "all - inside": found.gain_over_interpolated,
    }
    other = found.interpolated.pass_at_budget
    return [first, _gain("extended_pool", counts, found.gain_over_interpolated, other, measured)]


def _gain(id_: str, counts: Counts, gain: Interval, other: Interval, measured: dict[str, Interval]) -> Claim:
    held = exceeds(gain, LEAST_PASS)
    if held is not True and 1 - other.value < LEAST_PASS:
        reason = "the budget solves nearly every problem anyway, so there is no room for a gain"
        return _claim(id_, counts, None, measured, reason)
    return _claim(id_, counts, held, measured)


def _flat(counts: Counts, bootstrap: Bootstrap) -> Claim:
    """Equivalence: every pair of alphas in [-0.5, 1.5] has a difference whose interval lies inside
    +-`FLAT_MARGIN`. Refuted when some pair's interval, Bonferroni over pairs, lies outside it."""
    inside = [a for a in counts.alphas if STABLE[0] <= a <= STABLE[1]]
    rate = counts.rate(OK)
    pairs = list(combinations([counts.at(a) for a in inside], 2))
    narrow = [bootstrap.mean(rate[i] - rate[j]) for i, j in pairs]
    wide = [bootstrap.mean(rate[i] - rate[j], 1 - (1 - LEVEL) / len(pairs)) for i, j in pairs]
    largest = max(range(len(pairs)), key=lambda p: abs(narrow[p].value))
    i, j = pairs[largest]
    measured = {
        f"largest difference of solve rates (alpha {counts.alphas[i]:g} - {counts.alphas[j]:g})": narrow[
            largest
        ]
    }
    held: bool | None = None
    reason = ""
    if not rate.any():
        reason = "nothing was solved at any alpha"
    elif any(w.low > FLAT_MARGIN or w.high < -FLAT_MARGIN for w in wide):
        held = False
    elif inside[0] == LOW or inside[-1] == HIGH:
        reason = "the sweep does not reach beyond both endpoints"
    elif all(n.low > -FLAT_MARGIN and n.high < FLAT_MARGIN for n in narrow):
        held = True
    if "hard" not in counts.split:
        unknown = "" if held is not None or reason else TOO_WIDE
        reason = "; ".join(filter(None, [reason, unknown, "the paper says this of hard problems only"]))
    return _claim("flat", counts, held, measured, reason)


def _mean(counts: Counts, outcome: Outcome, alpha: float) -> float:
    return float(counts.rate(outcome)[counts.at(alpha)].mean())


def _claim(
    id_: str, counts: Counts, held: bool | None, measured: dict[str, Interval], reason: str = ""
) -> Claim:
    if held is None and not reason:
        reason = TOO_WIDE
    return Claim(id_, PAPER[id_], counts.split, held, measured, reason)
