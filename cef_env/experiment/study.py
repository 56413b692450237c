"""`cef reproduce` over many runs: settings, sizes and seeds, each an ordinary run, then one table of claims.

A study has cells; the runs of a cell share a warm start and the held-out problems and differ by the seed
of everything after it. Start the same command in as many processes as there are processors: each takes a
run that nobody works on, a killed one leaves it to be continued, and the last to end writes the results.
Does not analyse: see `study_report.py`. Command: `cef reproduce --preset full --out runs/full`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from cef_env.errors import InUseError, UserError
from cef_env.eval.plan import first_difference
from cef_env.experiment.stages import LOCK, reproduce
from cef_env.files import exclusive, read_json, write_json
from cef_env.training.config import Config
from cef_env.training.fields import Strict
from cef_env.training.reading import examples, layered, read_config, validated
from cef_env.ui import Reporter

FOLDER = "configs/studies"
"""Of the studies that come with the package, in `training`."""
FILE = "study.json"
RESULTS = "results"
WARM = "warm"
POLL_S = 5.0
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]


class Cell(Strict):
    """Runs that differ by the seed alone."""

    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**31)], ...], Field(min_length=1)]
    """Of RL, sampling and controls; one run for each."""
    config: dict[str, Any] = Field(default={})
    """What differs from `base`."""

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a seed is given twice")
        return value


class Study(Strict):
    """What is run."""

    study: Name
    """Its name."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Of warm starts and held-out problems, which all runs of a cell share."""
    base: dict[str, Any]
    """Configuration of every run, as of a preset; without preset, seed and warm_start, which follow."""
    cells: Annotated[dict[Name, Cell], Field(min_length=1)]
    """By name."""

    @model_validator(mode="after")
    def _every_config_is_right(self) -> "Study":
        for name in self.cells:
            self.config(name)
        return self

    def config(self, cell: str, seed: int | None = None) -> Config:
        """Of the run of a cell with this seed; of the warm start without one."""
        data = layered(self.base, self.cells[cell].config)
        data = layered(data, {"preset": f"{self.study} {cell}", "sweep": {"problem_seed": self.seed}})
        if seed is None:
            return Config.model_validate(data | {"seed": self.seed})
        return Config.model_validate(data | {"seed": seed, "warm_start": f"../{WARM}/sft/model"})


@dataclass(frozen=True)
class Unit:
    """A folder that one process works on."""

    folder: Path
    done: Path
    """Exists when the work is done."""
    after: Path | None
    """What must exist before it can begin."""
    work: Callable[[], object]


def is_study(name_or_path: str) -> bool:
    """Whether this preset or file is a study rather than a run."""
    if name_or_path in examples(FOLDER):
        return True
    if not name_or_path.endswith((".yaml", ".yml")) or not Path(name_or_path).is_file():
        return False
    return "cells" in read_config(name_or_path, FOLDER)


def load_study(name_or_path: str) -> Study:
    """A study by name or path; `UserError` names the field that is wrong."""
    return validated(Study, read_config(name_or_path, FOLDER), name_or_path)


def run_study(study: Study, out: Path, reporter: Reporter) -> Path:
    """Does what nobody else does of the study, waits for the others, and returns the page of results."""
    claim_study(study, out)
    units = units_of(study, out, reporter)
    waiting = False
    while left := [unit for unit in units if not unit.done.exists()]:
        if any(_take(unit, reporter) for unit in left):
            waiting = False
            continue
        if not waiting:
            reporter.say(f"waiting for other processes: {len(left)} of {len(units)} parts are not done")
        waiting = True
        time.sleep(POLL_S)
    from cef_env.experiment.study_report import write_results

    while True:
        try:
            with exclusive(out / "lock", f"study {str(out)!r}"):
                return write_results(out, out / RESULTS)
        except InUseError:  # another process has come to its end, too
            time.sleep(POLL_S)


def _take(unit: Unit, reporter: Reporter) -> bool:
    """Does the unit, unless it has to wait or another process has it."""
    if unit.done.exists() or (unit.after is not None and not unit.after.exists()):
        return False
    lock = unit.folder / LOCK
    try:
        if lock.exists():  # so that what another process has is not announced
            with exclusive(lock, unit.folder.name):
                pass
        reporter.say(f"[bold]{unit.folder.parent.name}[/] {unit.folder.name}")
        unit.work()
    except InUseError:
        return False
    return True


def units_of(study: Study, out: Path, reporter: Reporter) -> list[Unit]:
    """Cell by cell, its warm start first, because its runs wait for that."""
    units: list[Unit] = []
    for name, cell in study.cells.items():
        start = out / name / WARM
        trained = start / "sft" / "manifest.json"

        def unit(folder: Path, seed: int | None, cell: str = name) -> Callable[[], object]:
            only = ("sft",) if seed is None else None
            return lambda: reproduce(study.config(cell, seed), folder, reporter, only)

        units.append(Unit(start, trained, None, unit(start, None)))
        for seed in cell.seeds:
            folder = out / name / f"seed-{seed}"
            units.append(Unit(folder, last_manifest(folder), trained, unit(folder, seed)))
    return units


def last_manifest(run: Path) -> Path:
    """Exists when the run is done."""
    return run / "report" / "manifest.json"


def claim_study(study: Study, out: Path) -> None:
    """Makes `out` the folder of this study, or refuses when it is another's.

    A study may grow by cells and by seeds of a cell, and cells that have not begun may change.
    """
    path = out / FILE
    wanted = study.model_dump(mode="json")
    if path.exists():
        found = read_study(out)
        begun = {name: cell for name, cell in found.cells.items() if (out / name).exists()}
        kept = {
            name: cell.model_copy(update={"seeds": tuple(s for s in cell.seeds if s in old.seeds)})
            for name, old in begun.items()
            if (cell := study.cells.get(name)) is not None
        }
        if kept != begun or found.model_copy(update={"cells": study.cells}) != study:
            key = first_difference(found.model_dump(mode="json"), wanted)
            raise UserError(f"{str(out)!r} holds another study (key {key} differs); choose another --out")
    elif out.exists() and any(out.iterdir()):
        raise UserError(f"{str(out)!r} is not empty and holds no study; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, wanted)


def read_study(out: Path) -> Study:
    """The study of a folder; `UserError` when it holds none."""
    path = out / FILE
    if not path.is_file():
        raise UserError(f"{str(out)!r}: no {FILE}, so it is no study; give the --out of cef reproduce")
    try:
        return Study.model_validate(read_json(path, "restore it from a copy"))
    except ValidationError as error:
        raise UserError(f"{path}: no study of this version; use the version that made it") from error
