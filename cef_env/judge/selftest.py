"""Does the judge say what is right, and does it say the same again? The labelled corpus, replayed.

    with Judge(workers=4) as judge:
        report = self_test(judge, rounds=5)
        report.agrees, report.flake_rate

Several programs run at once, in an order shuffled anew for every round: that is how the judge is used. A
fault of the judge is counted apart and is never a verdict. Does not print (see `cef_env.doctor`).
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from cef_env.errors import InstrumentError, UserError
from cef_env.judge.corpus import CORPUS, Labelled
from cef_env.judge.corpus.labelled import verdict_of
from cef_env.judge.corpus.needs import REFUSED
from cef_env.judge.judge import Judge
from cef_env.judge.languages import Language
from cef_env.judge.types import JudgeResult
from cef_env.sandbox.bwrap import toolchain_paths

Progress = Callable[[int, int], None]
"""(finished, total) runs of programs."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One run whose result is not among the right ones."""

    name: str
    expected: str
    got: str
    round: int
    """From 1."""
    detail: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One run that the judge itself failed."""

    name: str
    round: int
    message: str


@dataclass
class SelfTestReport:
    """What came out of all rounds."""

    tier: str
    rounds: int
    seed: int
    programs: int
    """How many were replayed in each round."""
    skipped: dict[str, tuple[str, ...]]
    """Reason -> names of programs that this judge cannot run."""
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(expected on this tier, got) -> runs; several right verdicts are joined by a slash."""
    disagreements: list[Disagreement] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    verdicts: dict[str, list[str]] = field(default_factory=dict)
    """Name -> verdict of each round that had one."""

    @property
    def flaky(self) -> tuple[str, ...]:
        """Programs whose verdict differed between rounds, also where each was a right one."""
        return tuple(name for name, seen in sorted(self.verdicts.items()) if len(set(seen)) > 1)

    @property
    def flake_rate(self) -> float | None:
        """Share of flaky programs; None after a single round, which cannot show any."""
        if self.rounds < 2 or not self.verdicts:
            return None
        return len(self.flaky) / len(self.verdicts)

    @property
    def agrees(self) -> bool:
        """Whether every run had a right result. Nothing at all having run is no agreement."""
        return bool(self.verdicts) and not self.disagreements and not self.faults


def self_test(
    judge: Judge,
    rounds: int = 3,
    seed: int = 0,
    corpus: Sequence[Labelled] = CORPUS,
    progress: Progress | None = None,
) -> SelfTestReport:
    """Replay the corpus.

    Raises `UserError` when the judge has a cache (it would answer itself) or a speed factor (the labels hold
    for the limits as they stand), or when there is nothing to do.
    """
    if judge.cached or judge.speed_factor != 1.0:
        raise UserError("the self-test needs a judge without cache and with speed_factor=1")
    if rounds < 1 or not corpus:
        raise UserError(f"rounds={rounds}, programs={len(corpus)}: the self-test needs at least one of each")
    skipped = _cannot_run(corpus, judge.tier)
    left_out = {name for names in skipped.values() for name in names}
    chosen = [labelled for labelled in corpus if labelled.name not in left_out]
    report = SelfTestReport(str(judge.tier), rounds, seed, len(chosen), skipped)
    shuffle = random.Random(seed).shuffle
    done = 0
    for round_ in range(1, rounds + 1):
        # One round after the other: equal programs that overlap would share one execution.
        shuffle(chosen)
        with ThreadPoolExecutor(judge.workers, thread_name_prefix="cef-self-test") as threads:
            futures = {threads.submit(run_labelled, judge, labelled): labelled for labelled in chosen}
            try:
                for future in as_completed(futures):
                    _count(report, futures[future], round_, future.result)
                    done += 1
                    if progress is not None:
                        progress(done, rounds * len(chosen))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
    return report


def run_labelled(judge: Judge, labelled: Labelled) -> JudgeResult:
    """Judge one labelled program in its language. Raises what `Judge.run` raises."""
    return judge.run(labelled.problem, labelled.program, language=labelled.language)


def third(corpus: Sequence[Labelled] = CORPUS) -> list[Labelled]:
    """Every third program of each language and label, so that each kind stays represented."""
    seen: Counter[tuple[str, str]] = Counter()
    kept = []
    for labelled in corpus:
        kind = (labelled.language, labelled.label)
        if seen[kind] % 3 == 0:
            kept.append(labelled)
        seen[kind] += 1
    return kept


def _cannot_run(corpus: Sequence[Labelled], tier: str) -> dict[str, tuple[str, ...]]:
    """C++ where there is no compiler, and what the tier refuses: facts about the machine, no disagreement."""
    unable = dict(REFUSED.get(tier, {}))
    try:
        toolchain_paths()
    except UserError as error:
        unable[str(error)] = frozenset(item.name for item in corpus if item.language != Language.PYTHON)
    found = {
        reason: tuple(item.name for item in corpus if item.name in names) for reason, names in unable.items()
    }
    return {reason: names for reason, names in found.items() if names}


def _count(
    report: SelfTestReport, labelled: Labelled, round_: int, outcome: Callable[[], JudgeResult]
) -> None:
    try:
        result = outcome()
    except InstrumentError as error:
        report.faults.append(Fault(labelled.name, round_, str(error)))
        return
    got = verdict_of(result)
    report.verdicts.setdefault(labelled.name, []).append(got)
    expected = "/".join(sorted(labelled.allowed(result.tier)))
    report.confusion[expected, got] += 1
    if not labelled.agrees(result):
        detail = result.compile_error or (result.failed.detail if result.failed else "")
        if labelled.passed is not None:
            expected += f" after {labelled.passed} accepted"
        report.disagreements.append(Disagreement(labelled.name, expected, got, round_, detail))
