"""Counts made directly from numbers, for tests of statistics."""

import numpy as np

from cef_env.eval import OUTCOMES, Counts, Member


def counts_of(outcomes, members, split="hard"):
    """`outcomes`: (members, problems, 4) counts; `members`: alphas and labels, alphas first."""
    outcomes = np.asarray(outcomes)
    rows, problems = outcomes.shape[:2]
    causes = np.zeros((rows, problems, 3), int)
    causes[:, :, 0] = outcomes[:, :, OUTCOMES.index("format_error")]
    return Counts(
        split,
        tuple(Member(None, m) if isinstance(m, str) else Member(float(m)) for m in members),
        tuple(f"p{i:04}" for i in range(problems)),
        outcomes,
        causes,
        np.zeros((rows, problems), int),
        np.zeros((rows, problems), int),
        ((),) * problems,
        (None,) * problems,
    )


def drawn(p, n, members, rng):
    """Answers drawn from solve probabilities p, shape (members, problems); all others are wrong."""
    correct = rng.binomial(n, p)
    outcomes = np.zeros((*correct.shape, 4), int)
    outcomes[:, :, OUTCOMES.index("correct")] = correct
    outcomes[:, :, OUTCOMES.index("correctness_failure")] = n - correct
    return counts_of(outcomes, members)
