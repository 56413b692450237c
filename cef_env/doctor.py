"""`cef doctor`: what this machine offers, whether the judge is right on it, and how fast it is.

    cef doctor              the whole self-test, three rounds (about a minute)
    cef doctor --quick      one round over a third of it

Measures and explains; changes nothing. The parts are in `cef_env.machine`, `cef_env.judge.selftest` and
`cef_env.judge.speed`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cef_env.errors import InstrumentError, SandboxUnavailableError, UserError
from cef_env.judge import Judge
from cef_env.judge.corpus import CORPUS
from cef_env.judge.difference import readable
from cef_env.judge.selftest import SelfTestReport, self_test, third
from cef_env.judge.speed import ENVIRONMENT_VARIABLE, REFERENCE_S, Speed, machine_speed, speed_factor
from cef_env.machine import features
from cef_env.sandbox.tiers import resolve, survey
from cef_env.ui import Reporter

LIKE_REFERENCE = (0.75, 1.33)
"""Speed factors that are not worth acting on: virtual cores alone vary that much from minute to minute."""
UNSTEADY = 1.5
SPEED_RUNS = 7
MAX_DETAIL = 160


@dataclass
class Checkup:
    """Everything that was found out."""

    features: dict[str, str]
    tiers: dict[str, str | None]
    """Name -> why it does not work here, or None where it does; the strongest first."""
    tier: str | None = None
    """The one that was examined."""
    problem: str | None = None
    """Why there is no self-test or speed, with the remedy."""
    self_test: SelfTestReport | None = None
    speed: Speed | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """Whether results of this machine can be trusted."""
        return self.problem is None and self.self_test is not None and self.self_test.agrees

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        test = None
        if self.self_test is not None:
            test = asdict(self.self_test) | {
                "confusion": [
                    {"expected": expected, "got": got, "runs": runs}
                    for (expected, got), runs in sorted(self.self_test.confusion.items())
                ],
                "flaky": self.self_test.flaky,
                "flake_rate": self.self_test.flake_rate,
                "agrees": self.self_test.agrees,
            }
        speed = None
        if self.speed is not None:
            speed = {"factor": self.speed.factor, "spread": self.speed.spread, "seconds": self.speed.seconds}
        return {
            "well": self.well,
            "features": self.features,
            "tiers": self.tiers,
            "tier": self.tier,
            "problem": self.problem,
            "self_test": test,
            "speed": speed,
            "notes": self.notes,
        }


def examine(sandbox: str, rounds: int, quick: bool, seed: int, reporter: Reporter) -> Checkup:
    """Find out everything; progress goes to `reporter`.

    Raises `UserError` for an unknown tier, and for a CEF_SPEED_FACTOR or `rounds` that make no sense. That
    nothing can be isolated here, or that the judge fails, is a finding and raises nothing.
    """
    if rounds < 1:
        raise UserError(f"rounds={rounds}: use a whole number >= 1")
    in_force = speed_factor()
    tier, problem = None, None
    try:
        tier = str(resolve(sandbox).tier)
    except SandboxUnavailableError as error:
        problem = str(error)
    checkup = Checkup(features(), {str(name): reason for name, reason in survey()}, tier, problem)
    if in_force != 1.0:
        checkup.notes.append(f"{ENVIRONMENT_VARIABLE}={in_force:g} is set: time limits are multiplied by it")
    if tier is None:
        return checkup
    corpus = third() if quick else CORPUS
    try:
        with Judge(sandbox=tier, speed_factor=1.0) as judge:
            with reporter.bar("test", rounds * len(corpus)) as move:
                checkup.self_test = self_test(judge, rounds, seed, corpus, _without_note(move))
            with reporter.bar("speed", SPEED_RUNS) as move:
                checkup.speed = machine_speed(judge, SPEED_RUNS, _without_note(move))
    except InstrumentError as error:
        checkup.problem = f"the judge failed: {error}"
    return checkup


def _without_note(move: Callable[[int, int, str], None]) -> Callable[[int, int], None]:
    return lambda done, total: move(done, total, "")


def show(checkup: Checkup) -> RenderableType:
    """The whole checkup, for `rich`."""
    parts: list[RenderableType] = [_facts(checkup.features), Text(), _tiers(checkup)]
    if checkup.self_test is not None:
        parts += [Text(), *_self_test(checkup.self_test)]
    if checkup.speed is not None:
        parts += [Text(), *_speed(checkup.speed)]
    parts += [Text(note, style="yellow") for note in checkup.notes]
    if checkup.problem is not None:
        parts += [Text(), Text(checkup.problem, style="red")]
    elif checkup.well:
        parts += [
            Text(),
            Text(f"All well: results of the tier {checkup.tier} can be trusted.", style="green"),
        ]
    else:
        parts += [Text(), Text("The self-test disagrees: do not trust results of this machine.", style="red")]
    return Group(*parts)


def _facts(found: dict[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, text in found.items():
        table.add_row(Text(name, style="bold"), Text(text))
    return table


def _tiers(checkup: Checkup) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, failure in checkup.tiers.items():
        state = "used" if name == checkup.tier else "works" if failure is None else "no"
        why = failure if failure and failure not in (checkup.problem or "") else ""  # told at the end
        mark = Text(state, style="green" if state == "used" else "")
        table.add_row(Text(f"tier {name}", style="bold"), mark, Text(why))
    return table


def _self_test(report: SelfTestReport) -> list[RenderableType]:
    columns = sorted({got for _, got in report.confusion})
    table = Table(title="Self-test: runs by right verdict and verdict given", title_justify="left")
    table.add_column("right verdict", overflow="fold")
    for got in columns:
        table.add_column(got.replace("_", "\n"), justify="right")
    for expected in sorted({expected for expected, _ in report.confusion}):
        cells = []
        for got in columns:
            runs = report.confusion.get((expected, got), 0)
            right = got in expected.split("/")
            cells.append(Text(str(runs) if runs else "", style="green" if right else "bold red"))
        table.add_row(expected.replace("_", " ").replace("/", " or "), *cells)
    parts: list[RenderableType] = [table]
    for item in report.disagreements:
        detail = f" ({readable(item.detail, MAX_DETAIL)})" if item.detail else ""
        text = f"{item.name}, round {item.round}: right is {item.expected}, got {item.got}{detail}"
        parts.append(Text(text, style="red"))
    for fault in report.faults:
        message = readable(fault.message, MAX_DETAIL)
        parts.append(Text(f"{fault.name}, round {fault.round}: the judge failed: {message}", style="red"))
    for reason, names in report.skipped.items():
        parts.append(Text(f"{len(names)} programs left out: {reason}", style="yellow"))
    rate = report.flake_rate
    flakes = "one round shows no flakes" if rate is None else f"flake rate {rate:.2%}"
    if report.flaky:
        flakes += f" ({', '.join(report.flaky)})"
    parts.append(
        Text(
            f"{report.programs} programs, {report.rounds} round{'s'[: report.rounds > 1]}, "
            f"seed {report.seed}: "
            f"{len(report.disagreements)} disagreements, {len(report.faults)} faults of the judge, {flakes}"
        )
    )
    return parts


def _speed(speed: Speed) -> list[RenderableType]:
    factor = speed.factor
    parts: list[RenderableType] = [
        Text(f"speed factor {factor:.2f} (a fixed program takes {factor * REFERENCE_S:.2f} s of CPU here, ")
        + Text(f"{REFERENCE_S:g} s on the reference machine)")
    ]
    if speed.spread > UNSTEADY:  # no advice from a number that the next minute contradicts
        text = f"Measured unsteadily (slowest run {speed.spread:.2f} times the fastest): repeat when idle."
        parts.append(Text(text, style="yellow"))
    elif LIKE_REFERENCE[0] <= factor <= LIKE_REFERENCE[1]:
        parts.append(Text("Time limits mean here what they were chosen to mean: leave them."))
    else:
        kind, effect = ("slower", "loosens") if factor > 1 else ("faster", "tightens")
        parts.append(
            Text(
                f"This machine is {kind}. {ENVIRONMENT_VARIABLE}={factor:.2f} (or cef judge --speed-factor "
                f"{factor:.2f}) {effect} time limits to match; results of different factors do not compare."
            )
        )
    return parts
