"""The report of a run of `cef reproduce`: what its stages left, for `eval/report.py`.

Command: `cef report RUN`, once its sweep is done.
"""

import json
from pathlib import Path

from cef_env.experiment.stages import rl_folder, stages
from cef_env.experiment.sweeps import evaluation_problems, keep_plan
from cef_env.files import read_json
from cef_env.training.config import Config

NOTES = (
    "The model is tiny and the problems are generated: this run says whether the "
    "paper's picture appears in miniature, not how large its effects are.",
    "One seed is one draw. Before drawing a conclusion, repeat with other seeds (`cef reproduce --seed`).",
)


def write_run_report(root: Path, config: Config, out: Path | None = None) -> Path:
    """Summary, figures and report of a run whose sweep is done; returns the path of the page.

    `out`: by default `report` inside the run.

    The summary holds only what samples and config determine, so that equal runs give equal files.
    """
    from cef_env.eval import read_tables
    from cef_env.eval.reader import read_answers
    from cef_env.eval.report import write_report

    keep_plan(root / "sweep", config)
    tables = read_tables(root / "sweep")
    remedy = "delete it, and run the same command again"
    manifests = [read_json(path, remedy) for path in root.glob("*/manifest.json")]
    order = list(stages(config))
    manifests.sort(key=lambda manifest: order.index(manifest["stage"]))
    coverages = {name: "inf" if k is None else k for name, k in config.coverages.items()}
    meta = {
        "preset": config.preset,
        "setting": config.setting,
        "seed": config.seed,
        "coverages": coverages,
        "sandbox tier": sorted({manifest["sandbox_tier"] for manifest in manifests}),
        "config": config.model_dump(mode="json") | {"coverages": coverages},
    }
    logs = [
        {"run": name, **json.loads(line)}
        for name in map(rl_folder, config.runs())
        for line in (root / name / "log.jsonl").read_text().splitlines()
    ]
    notes = list(NOTES)
    if config.preset == "smoke":
        notes.insert(0, "This is the smoke preset: the model is hardly trained and the numbers mean nothing.")
    low, high = (root / rl_folder(name) / "model" / "model.safetensors" for name in ("low", "high"))
    if low.read_bytes() == high.read_bytes():
        notes.insert(
            0,
            "The two trained checkpoints hold the same weights, so every alpha is one model: "
            "whatever differs below is chance. Train longer.",
        )
    return write_report(
        out or root / "report",
        tables,
        meta,
        train_log=logs,
        notes=notes,
        seed=config.seed,
        answers=read_answers(root / "sweep", list(tables.values())),
        problems={s: {p.id: p for p in found} for s, found in evaluation_problems(config).items()},
        made={
            "effective alphas": "those asked for: weights in float32, averaged in memory",
            "python": sorted({manifest["python"] for manifest in manifests}),
            "versions": manifests[0]["versions"],
        },
        stages=manifests,
    )
