"""The results of a study: what its runs left, as a table of claims, one page, figures and a manifest.

Reads only finished runs and says which are missing, so that a part of a study can be looked at. Does not
compute statistics: see `eval/study_claims.py`. Command: `cef report RUNS/FULL`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cef_env.errors import UserError
from cef_env.eval import read_tables
from cef_env.eval.cells import CellData
from cef_env.eval.intervals import Error, Interval, interval
from cef_env.eval.study_claims import SPLITS, findings
from cef_env.eval.study_page import SplitResult, StudyResult, write_study
from cef_env.experiment.stages import rl_folder
from cef_env.experiment.study import WARM, Study, last_manifest, read_study
from cef_env.files import read_json

REMEDY = "delete its folder and run the same command again"
FIXING = "online fixing"


def write_results(root: Path, out: Path) -> Path:
    """`claims.json`, `claims.md`, `manifest.json`, `report.html` and figures in `out`; returns the page."""
    study = read_study(root)
    missing: list[str] = []
    cells: dict[str, list[CellData]] = {split: [] for split in SPLITS}
    runs: list[Path] = []
    for name, cell in study.cells.items():
        folders = {seed: root / name / f"seed-{seed}" for seed in cell.seeds}
        done = {seed: folder for seed, folder in folders.items() if last_manifest(folder).is_file()}
        missing += [f"{name}/seed-{seed}" for seed in folders if seed not in done]
        if done:
            for split, data in _cell(study, name, done).items():
                cells[split].append(data)
            runs += [root / name / WARM, *done.values()]
    if not runs:
        raise UserError(f"no run of {str(root)!r} is done yet; run cef reproduce --out {root} first")
    splits = {
        split: SplitResult(tuple(found), tuple(findings(found))) for split, found in cells.items() if found
    }
    result = StudyResult(study.study, splits, tuple(missing))
    return write_study(out, result, manifest(root, study, runs, missing))


def _cell(study: Study, name: str, done: Mapping[int, Path]) -> dict[str, CellData]:
    """By split."""
    config = study.config(name)
    folders = list(done.values())
    sweeps = [read_tables(folder / "sweep") for folder in folders]
    beside = [read_tables(folder / "variants") for folder in folders] if config.variants else []
    parameters = _parameters(folders[0] / rl_folder("high") / "model" / "model.safetensors")
    fix_rate = _fix_rate(folders) if FIXING in config.variants else None
    return {
        split: CellData(
            name=name,
            setting=config.setting,
            parameters=parameters,
            seeds=tuple(done),
            alphas=tuple(tables[split] for tables in sweeps),
            variants=tuple(tables[split] for tables in beside),
            fix_rate=fix_rate,
        )
        for split in SPLITS
        if split in config.sweep.problems
    }


def _parameters(weights: Path) -> int:
    """Elements of a safetensors file, from its header."""
    with weights.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return sum(int(np.prod(entry["shape"])) for name, entry in header.items() if name != "__metadata__")


def _fix_rate(folders: list[Path]) -> tuple[Interval, tuple[float, ...]]:
    """Share of repaired failures, second half of online fixing minus first half: mean over seeds with a t
    interval, and each seed's."""
    changes = []
    for folder in folders:
        log = (folder / rl_folder(FIXING) / "log.jsonl").read_text().splitlines()
        rates = [row["fix_rate"] for row in map(json.loads, log) if row["fix_rate"] is not None]
        half = len(rates) // 2
        changes.append(float(np.mean(rates[half:]) - np.mean(rates[:half])))
    values = np.array(changes)
    found = interval(float(values.mean()), values, len(values), error=Error.of_mean(values))
    return found, tuple(changes)


def manifest(root: Path, study: Study, runs: list[Path], missing: list[str]) -> dict[str, Any]:
    """What was run, with what, and how long each stage took."""
    stages: dict[str, Any] = {}
    versions: dict[str, set[str]] = {}
    tiers, pythons = set(), set()
    wall = cpu = 0.0
    for run in runs:
        for path in sorted(run.glob("*/manifest.json")):
            found = read_json(path, REMEDY)
            stages[f"{run.relative_to(root)}/{found['stage']}"] = {
                key: found[key] for key in ("wall_s", "cpu_s", "peak_memory_mb", "resumed")
            }
            wall, cpu = wall + found["wall_s"], cpu + found["cpu_s"]
            tiers.add(found["sandbox_tier"])
            pythons.add(found["python"])
            for package, version in found["versions"].items():
                versions.setdefault(package, set()).add(version)
    return {
        "study": study.model_dump(mode="json"),
        "missing": missing,
        "versions": {package: sorted(found) for package, found in sorted(versions.items())},
        "python": sorted(pythons),
        "sandbox_tier": sorted(tiers),
        "hours": {"wall, summed over runs": round(wall / 3600, 2), "cpu, judge apart": round(cpu / 3600, 2)},
        "stages": stages,
    }
