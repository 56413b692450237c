"""Two rules for the outcome of an answer, compared on the same programs.

The rule of the outcomes is the first failure: tests run in ascending length, the first that fails decides.
The other runs every test and lets any wrong answer or crash dominate an exceeded limit. They can differ in
one way only, from optimization failure (first failure) to correctness failure (exhaustive), except for a
program on the edge of a limit. Judges the stored programs of a sweep again, exhaustively; keeps the verdicts,
so it can be continued. Command: `cef eval rules DIR`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.eval.counts import OUTCOMES
from cef_env.eval.programs import (
    EXHAUSTIVE,
    JsonLines,
    Judgement,
    judgement_row,
    read_judgements,
    read_programs,
)
from cef_env.eval.records import Member
from cef_env.eval.sampling import Progress
from cef_env.eval.tables import iter_folder
from cef_env.files import write_json
from cef_env.judge import Judge, Outcome
from cef_env.problems import ProblemSet

_AT_ONCE = 64


@dataclass(frozen=True)
class RuleComparison:
    """Agreement of the two rules over the answers of one split."""

    split: str
    answers: dict[tuple[Outcome, Outcome], int]
    """(by the first failure, exhaustively) -> answers; pairs that do not occur are left out."""
    members: dict[Member, dict[tuple[Outcome, Outcome], int]]
    """The same for each member."""

    @property
    def agreement(self) -> float:
        """Share of answers with one outcome under both rules."""
        return agreement(self.answers)


def agreement(answers: Mapping[tuple[Outcome, Outcome], int]) -> float:
    """Share of the answers on the diagonal."""
    return sum(n for (first, second), n in answers.items() if first is second) / sum(answers.values())


def compare_rules(
    folder: Path, splits: Mapping[str, ProblemSet], judge: Judge, progress: Progress
) -> dict[str, RuleComparison]:
    """Agreement by split; also written to `rules.json`. `splits`: the problems of every split."""
    wanted = {(s.split, s.problem_id, s.program_sha256) for s in iter_folder(folder) if s.program_sha256}
    outcomes = _judge_all(folder, wanted, splits, judge, progress)
    tables: dict[str, dict[Member, Counter[tuple[Outcome, Outcome]]]] = {}
    for s in iter_folder(folder):
        second = s.outcome
        if s.program_sha256 is not None:
            second = outcomes[s.problem_id, s.program_sha256]
        tables.setdefault(s.split, {}).setdefault(s.member, Counter())[s.outcome, second] += 1
    found = {}
    for split, members in tables.items():
        total: Counter[tuple[Outcome, Outcome]] = sum(members.values(), Counter())
        found[split] = RuleComparison(split, dict(total), {m: dict(c) for m, c in members.items()})
    write_json(folder / "rules.json", {split: to_json(c) for split, c in found.items()})
    return found


def to_json(found: RuleComparison) -> dict[str, Any]:
    """Agreement and tables with rows by the first failure and columns exhaustively."""

    def table(answers: Mapping[tuple[Outcome, Outcome], int]) -> list[list[int]]:
        return [[answers.get((first, second), 0) for second in OUTCOMES] for first in OUTCOMES]

    return {
        "outcomes": [str(outcome) for outcome in OUTCOMES],
        "agreement": found.agreement,
        "answers": table(found.answers),
        "members": {
            m.name: {"agreement": agreement(answers), "answers": table(answers)}
            for m, answers in found.members.items()
        },
    }


def _judge_all(
    folder: Path,
    wanted: set[tuple[str, str, str]],
    splits: Mapping[str, ProblemSet],
    judge: Judge,
    progress: Progress,
) -> dict[tuple[str, str], Outcome]:
    """(problem, sha256) -> exhaustive outcome, judging what was not judged before."""
    done = {(j.problem_id, j.sha256): j.outcome for j in read_judgements(folder, EXHAUSTIVE)}
    todo: dict[tuple[str, str], str] = {}
    for split, problem, sha256 in sorted(wanted):
        if split not in splits:
            raise UserError(f"{folder}: the sweep has a split {split!r}; give --problems {split}=SOURCE")
        if (problem, sha256) not in done:
            todo[problem, sha256] = split
    texts = {row.sha256: row for row in read_programs(folder, {sha256 for _, sha256 in todo})}
    missing = [sha256 for _, sha256 in todo if sha256 not in texts]
    if missing:
        raise UserError(f"{folder}: program {missing[0]} was not kept, so it cannot be judged again")
    lines = JsonLines(folder / EXHAUSTIVE, lambda row: None)
    try:
        waiting = iter(sorted(todo, key=lambda key: (texts[key[1]].language, key)))
        count = 0
        while batch := list(islice(waiting, _AT_ONCE)):
            for language in dict.fromkeys(texts[sha256].language for _, sha256 in batch):
                keys = [key for key in batch if texts[key[1]].language == language]
                pairs = [(splits[todo[key]].get(key[0]), texts[key[1]].program) for key in keys]
                results = judge.map(pairs, exhaustive=True, language=language)
                lines.append(
                    [judgement_row(Judgement.of(k[1], r)) for k, r in zip(keys, results, strict=True)]
                )
                done.update({key: result.outcome for key, result in zip(keys, results, strict=True)})
            count += len(batch)
            progress(count, len(todo), "")
    finally:
        lines.close()
    return done
