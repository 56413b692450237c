"""Samples with known truth: outcome probabilities that move with alpha, problem by problem.

Every problem has logits for the four outcomes that are linear (and, for format errors, quadratic) in
alpha; the answers are drawn from their softmax. `PAPER_LIKE` shows the frontier and its break-down, `NULL`
shows nothing. In `SPECIALISTS` each problem is solved around an alpha of its own, so that every claim of
the paper holds, the flat solve rate and the gain of ensembles included.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from cef_env.eval import OUTCOMES, Sample
from cef_env.judge.types import FormatErrorCause, Outcome

ALPHAS = (-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class World:
    """Logits of (correct, optimization failure, correctness failure, format error)."""

    base: tuple[float, float, float, float]
    along: tuple[float, float, float, float]
    """Added times (alpha - 1/2)."""
    far: float
    """Added to the format error's logit times the square of the distance from [-0.5, 1.5]."""
    spread: float
    """Standard deviation over problems of the base logits."""
    turnover: float
    """Standard deviation over problems of the slope of correct on alpha."""
    width: float = 0.0
    """If positive, the chance of correct is a bell of this width around an alpha of the problem's own, drawn
    evenly from [-1.5, 2.5]; the other outcomes share the rest."""


PAPER_LIKE = World((0.5, 0.3, 0.0, -2.5), (0.0, -1.2, 1.2, 0.0), 4.0, 0.6, 2.5)
SPECIALISTS = World((0.5, 0.3, 0.0, -2.5), (0.0, -1.2, 1.2, 0.0), 4.0, 0.3, 0.0, width=0.35)
NULL = World((0.5, 0.3, 0.0, -2.5), (0.0, 0.0, 0.0, 0.0), 0.0, 0.6, 0.0)


def probabilities(world: World, problems: int, alphas: tuple[float, ...], seed: int) -> np.ndarray:
    """Shape (A, P, 4), in the order of `OUTCOMES`."""
    rng = np.random.default_rng(seed)
    base = np.array(world.base) + rng.normal(0, world.spread, (problems, 4))
    along = np.tile(np.array(world.along, dtype=float), (problems, 1))
    along[:, 0] += rng.normal(0, world.turnover, problems)
    a = np.array(alphas)
    logits = base + (a - 0.5)[:, None, None] * along
    distance = np.maximum(0, np.maximum(-0.5 - a, a - 1.5))
    logits[:, :, OUTCOMES.index(Outcome.FORMAT_ERROR)] += (world.far * distance**2)[:, None]
    if world.width:
        centre = (np.arange(problems) + 0.5) / problems * 4 - 1.5
        bell = 0.7 * np.exp(-(((a[:, None] - centre) / world.width) ** 2) / 2)
        others = np.log(np.exp(logits[:, :, 1:3]).sum(axis=2))
        logits[:, :, OUTCOMES.index(Outcome.CORRECT)] = others + np.log(bell / (1 - bell))
    exp = np.exp(logits - logits.max(axis=2, keepdims=True))
    return exp / exp.sum(axis=2, keepdims=True)


def draw(
    world: World,
    problems: int = 60,
    answers: int = 24,
    alphas: tuple[float, ...] = ALPHAS,
    seed: int = 0,
    split: str = "hard",
) -> list[Sample]:
    """Samples of one split. Format errors are out of tokens nine times in ten."""
    p = probabilities(world, problems, alphas, seed)
    rng = np.random.default_rng([seed, 1])
    samples = []
    for a, alpha in enumerate(alphas):
        for q in range(problems):
            for index, outcome in enumerate(rng.choice(4, size=answers, p=p[a, q])):
                kind = OUTCOMES[outcome]
                cause = None
                if kind is Outcome.FORMAT_ERROR:
                    cause = FormatErrorCause.OUT_OF_TOKENS if rng.random() < 0.9 else FormatErrorCause.NO_CODE
                samples.append(
                    Sample(
                        problem_id=f"p{q:03d}",
                        split=split,
                        alpha=alpha,
                        index=index,
                        outcome=kind,
                        coverage_reached=6 if kind is Outcome.CORRECT else 2 if cause is None else 0,
                        format_error=cause,
                        program_sha256=None
                        if cause
                        else hashlib.sha256(f"{q}/{kind}/{rng.integers(5)}".encode()).hexdigest(),
                        tokens=int(rng.integers(20, 90)),
                        tags=("even",) if q % 2 == 0 else ("odd",),
                    )
                )
    return samples
