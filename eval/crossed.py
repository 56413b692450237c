"""Several runs that differ by the seed of training, measured on the same problems: one table, one interval.

Runs are laid side by side as if each had problems of its own, and every statistic of one run applies.
What changes is the interval: problems and seeds are drawn at random independently, so both are resampled,
and a resample's weight of (seed, problem) is the product ("pigeonhole bootstrap", Owen 2007), which errs
on the wide side. The t interval that is contained adds the variances of both kinds of means, with
Satterthwaite's degrees of freedom, so that a handful of seeds that disagree make it as wide as they
should.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cef_env.errors import UserError
from cef_env.eval.counts import Counts
from cef_env.eval.ensembles import Folds, folds
from cef_env.eval.intervals import RESAMPLES, Bootstrap, Error

Floats = NDArray[np.float64]


def side_by_side(tables: Sequence[Counts]) -> Counts:
    """Tables of the same members and problems, one per seed, as one: shape (A, S * P), seed by seed.

    Raises `UserError` when they differ in members or problems.
    """
    first = tables[0]
    for table in tables[1:]:
        if table.members != first.members or table.problem_ids != first.problem_ids:
            raise UserError(
                f"split {first.split!r}: runs of one cell differ in members or problems; sample them alike"
            )
    return replace(
        first,
        problem_ids=tuple(f"{id_} ({i})" for i, table in enumerate(tables, 1) for id_ in table.problem_ids),
        outcomes=np.concatenate([table.outcomes for table in tables], axis=1),
        causes=np.concatenate([table.causes for table in tables], axis=1),
        uncompiled=np.concatenate([table.uncompiled for table in tables], axis=1),
        tokens=np.concatenate([table.tokens for table in tables], axis=1),
        tags=tuple(tags for table in tables for tags in table.tags),
        difficulties=tuple(value for table in tables for value in table.difficulties),
    )


@dataclass(frozen=True, eq=False)
class CrossedBootstrap(Bootstrap):
    """Resamples of S seeds and P problems, for tables of `side_by_side`: weights (resamples, S * P)."""

    seeds: int
    """S."""

    @classmethod
    def of(cls, problems: int, seeds: int, seed: int = 0, resamples: int = RESAMPLES) -> "CrossedBootstrap":
        """With one seed this is the bootstrap over problems."""
        over_problems = Bootstrap.over(problems, seed, resamples).weights
        rng = np.random.default_rng([seed, problems, seeds])
        over_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds
        crossed = over_seeds[:, :, None] * over_problems[:, None, :]
        return cls(crossed.reshape(resamples, -1), seeds)

    @property
    def problems(self) -> int:
        """P: what there are least of that intervals rest on, seeds apart."""
        return self.weights.shape[1] // self.seeds

    def folds(self, seed: int = 0) -> Folds:
        """For cross-fitting: all runs of a problem lie in one fold."""
        shift = self.problems * np.arange(self.seeds)[:, None]
        return [[(part[None, :] + shift).ravel() for part in parts] for parts in folds(self.problems, seed)]

    def _standard_error(self, values: Floats) -> Error:
        table = values.reshape(self.seeds, self.problems)
        return Error.of_mean(table.mean(axis=0)) + Error.of_mean(table.mean(axis=1))

    def _jackknife(self, values: Floats, function: Callable[[Floats], Floats]) -> Error:
        table = values.reshape(len(values), self.seeds, self.problems)
        return Error.of_jackknife(table.mean(axis=1), function) + Error.of_jackknife(
            table.mean(axis=2), function
        )
