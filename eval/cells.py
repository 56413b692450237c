"""One split of the runs of a study's cell: their tables, side by side, and what each says of the claims.

Does not read files (`experiment/study_report.py`) and does not put cells together (`study_claims.py`).
"""

from dataclasses import dataclass
from functools import cached_property

from cef_env.eval.claims import judge_split
from cef_env.eval.counts import Counts
from cef_env.eval.crossed import CrossedBootstrap, side_by_side
from cef_env.eval.ensembles import FOLDS, budget_with_room, compare_ensembles
from cef_env.eval.intervals import Interval
from cef_env.eval.verdicts import Claim


@dataclass(frozen=True, eq=False)
class CellData:
    """One split of a cell's runs."""

    name: str
    setting: str
    parameters: int
    """Of the model."""
    seeds: tuple[int, ...]
    alphas: tuple[Counts, ...]
    """One table per seed: alphas and controls."""
    variants: tuple[Counts, ...]
    """One table per seed: the warm start and further RL runs; none where the cell has none."""
    fix_rate: tuple[Interval, tuple[float, ...]] | None = None
    """How the share of repaired failures rose during online fixing: over seeds, and for each."""

    @cached_property
    def together(self) -> Counts:
        return side_by_side(self.alphas)

    @cached_property
    def sweep(self) -> Counts:
        """The alphas alone."""
        return alphas_of(self.together)

    @cached_property
    def beside(self) -> Counts:
        return side_by_side(self.variants)

    @cached_property
    def bootstrap(self) -> CrossedBootstrap:
        return CrossedBootstrap.of(len(self.alphas[0].problem_ids), len(self.seeds))

    @cached_property
    def budget(self) -> int:
        """Answers to one problem at which ensembles are compared."""
        return budget_with_room(self.sweep)

    @cached_property
    def claims(self) -> dict[str, tuple[Claim, tuple[Claim, ...]]]:
        """By id: on all seeds together, and on each alone."""
        together = self._judged(self.sweep, self.bootstrap)
        alone = [
            self._judged(t, CrossedBootstrap.of(len(t.problem_ids), 1)) for t in map(alphas_of, self.alphas)
        ]
        return {c.id: (c, tuple(found[i] for found in alone)) for i, c in enumerate(together)}

    def _judged(self, table: Counts, bootstrap: CrossedBootstrap) -> list[Claim]:
        comparison = None
        if bootstrap.problems >= FOLDS and int(table.n.min()) >= 4:
            folds = bootstrap.folds()
            comparison = compare_ensembles(table, bootstrap, self.budget, problem_folds=folds)
        return judge_split(table, bootstrap, comparison=comparison)

    def labels(self, start: str) -> list[str]:
        """Variants whose name starts so."""
        members = self.variants[0].members if self.variants else ()
        return [member.label for member in members if member.label.startswith(start)]


def alphas_of(table: Counts) -> Counts:
    """Without controls and other checkpoints."""
    return table.only(lambda member: member.alpha is not None) or table.only_rows([])
