"""pass@k and its generalisation to ensembles, to full double precision, by unbiased estimators.

    pass@k       = 1 - C(n-c, k) / C(n, k)                       (Chen et al. 2021, arXiv 2107.03374)
    ensemble     = 1 - prod_m C(n_m - c_m, k_m) / C(n_m, k_m)    (independent draws from each member)

n answers were drawn, c of them are correct, k is the budget. The ratio is a product over min(c, k)
factors (it is symmetric in c and k), summed as log1p and returned through expm1: no cancellation for
small probabilities, no overflow for large n. Never resamples with replacement, never guesses for k > n.
"""

from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cef_env.errors import UserError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CELLS = 1 << 20  # logarithms held at once


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> float | Floats:
    """Probability that at least one of k answers, drawn without replacement from n of which c pass, passes.

    `n`, `c`, `k`: integers or integer arrays that broadcast; 0 <= c <= n, 1 <= k <= n.
    Returns a float for scalars, else an array of the broadcast shape; the relative error is below 1e-12
    up to n = 100,000. Unbiased for 1 - (1 - p)^k. Raises `UserError` where k > n: draw more answers.
    """
    n_, c_, k_ = _checked(n, c, k, least_k=1)
    result = -np.expm1(_log_fail(n_, c_, k_))
    return float(result) if result.ndim == 0 else result


def ensemble_pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> float | Floats:
    """pass@k of an ensemble: k_m answers from member m, the problem is solved if any of them passes.

    `n`, `c`: shape (members,) or (members, problems, ...). `k`: either one integer, the total budget,
    split as evenly as possible over the members, where a remainder is averaged over all ways to give it
    (budget 250 over 4 members: the 6 orders of 63, 63, 62, 62); or one integer per member, k_m >= 0.
    Returns a float for shape (members,), else an array (problems, ...). Unbiased for independent members.
    Raises `UserError` where a member has fewer answers than its share, or the budget is 0.
    """
    n_arr, c_arr = np.broadcast_arrays(_integers(n, "n"), _integers(c, "c"))
    if n_arr.ndim == 0 or n_arr.shape[0] == 0:
        raise UserError("an ensemble needs one entry of n and c per member")
    members = n_arr.shape[0]
    budget = _integers(k, "k")
    if budget.ndim == 0:
        share, rest = divmod(int(budget), members)
        shares = [share] * members
    elif budget.shape == (members,):
        shares, rest = [int(v) for v in budget], 0
    else:
        raise UserError(
            f"k has shape {budget.shape}; give one total budget or one entry per member ({members})"
        )
    if sum(shares) + rest < 1:
        raise UserError("the budget of an ensemble must be at least 1 answer")
    logs = [
        [
            _log_fail(*_checked(n_arr[m], c_arr[m], mine + extra, least_k=0))
            for extra in range(2 if rest else 1)
        ]
        for m, mine in enumerate(shares)
    ]
    result = combine([pair[0] for pair in logs], [pair[-1] for pair in logs], rest)
    return float(result) if result.ndim == 0 else result


def log_fail(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats:
    """log of the chance that none of k answers passes; -inf where one must. Arguments as in `pass_at_k`."""
    return _log_fail(*_checked(n, c, k, least_k=0))


def combine(logs: Sequence[Floats], logs_more: Sequence[Floats], rest: int) -> Floats:
    """Chance that an ensemble solves a problem, averaged over which `rest` members draw one answer more.

    `logs`, `logs_more`: `log_fail` of each member at its share and at one answer more, equal shapes.
    """
    # fail[j], solve[j]: summed over all ways to give j of the members seen so far one answer more. Both are
    # sums of positive terms, so a tiny chance of solving keeps its relative precision.
    shape = logs[0].shape
    fail = [np.ones(shape)] + [np.zeros(shape) for _ in range(rest)]
    solve = [np.zeros(shape) for _ in range(rest + 1)]
    for log, more in zip(logs, logs_more):
        for j in range(rest, -1, -1):
            new_solve, new_fail = solve[j] - fail[j] * np.expm1(log), fail[j] * np.exp(log)
            if j:
                new_solve = new_solve + solve[j - 1] - fail[j - 1] * np.expm1(more)
                new_fail = new_fail + fail[j - 1] * np.exp(more)
            solve[j], fail[j] = new_solve, new_fail
    return np.minimum(solve[rest] / comb(len(logs), rest), 1.0)


def _integers(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values)
    whole = array.dtype.kind in "iu" or (
        array.dtype.kind == "f" and np.all(np.isfinite(array)) and np.all(array % 1 == 0)
    )
    if not whole:
        raise UserError(f"{name} must hold integers, got {array.dtype} values")
    return array.astype(np.int64)


def _checked(n: ArrayLike, c: ArrayLike, k: ArrayLike, least_k: int) -> tuple[Ints, Ints, Ints]:
    n_, c_, k_ = np.broadcast_arrays(_integers(n, "n"), _integers(c, "c"), _integers(k, "k"))
    if np.any(k_ < least_k):
        raise UserError(f"k = {int(k_.min())}: a budget is at least {least_k}")
    if np.any((c_ < 0) | (c_ > n_)):
        raise UserError("c must lie between 0 and n: it counts the correct answers among the n drawn")
    if np.any(k_ > n_):
        at = int(np.argmax((k_ > n_).ravel()))
        raise UserError(
            f"k = {k_.ravel()[at]} needs at least that many answers, only n = {n_.ravel()[at]} were drawn; "
            "draw more or ask for a smaller k"
        )
    return n_, c_, k_


def _log_fail(n: Ints, c: Ints, k: Ints) -> Floats:
    """log of C(n-c, k) / C(n, k) = sum over i < a of log1p(-b / (n - i)), a = min(c, k), b = max(c, k)."""
    shape = n.shape
    result = np.zeros(n.size)
    flat_n, a, b = n.ravel(), np.minimum(c, k).ravel(), np.maximum(c, k).ravel()
    result[a + b > flat_n] = -np.inf
    # Equal triples once, and rows of like length together, so that a whole table costs few logarithms.
    todo = np.flatnonzero((a > 0) & (a + b <= flat_n))
    base = int(flat_n.max(initial=0)) + 1
    # Below 2^21 a triple fits into one integer, which sorts much faster.
    assert base < 1 << 21, "more than two million answers to one problem"
    keys, inverse = np.unique((a[todo] * base + b[todo]) * base + flat_n[todo], return_inverse=True)
    triples = np.stack([keys // base**2, keys // base % base, keys % base], axis=1)
    sums = np.empty(len(triples))
    at = len(triples)
    while at > 0:
        longest = int(triples[at - 1, 0])  # sorted by a, the number of factors
        begin = max(0, at - max(1, _CELLS // longest))
        rows = triples[begin:at]
        i = np.arange(longest)
        used = i < rows[:, :1]
        ratio = rows[:, 1:2] / np.where(used, rows[:, 2:3] - i, np.inf)
        sums[begin:at] = np.log1p(-ratio).sum(axis=1)
        at = begin
    result[todo] = sums[inverse.ravel()]
    return result.reshape(shape)
