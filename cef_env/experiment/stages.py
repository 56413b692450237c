"""The stages of `cef reproduce`: warm start, RL runs, sweep over alpha, report.

Each stage leaves its artefacts and a manifest in its own folder of the run directory and is skipped when
it is done; within a stage, training and sampling continue where they were. Killed at any moment and run
again, the run ends with the same summary.json. Command: `cef reproduce --preset laptop --out runs/demo`.
"""

import platform
import resource
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from cef_env import __version__
from cef_env.errors import UserError
from cef_env.eval.plan import first_difference
from cef_env.experiment.sweeps import sweep_stage, variants_stage
from cef_env.files import exclusive, read_json, write_json
from cef_env.judge import Judge
from cef_env.sandbox.tiers import resolve
from cef_env.training.config import Config
from cef_env.ui import Reporter

LOCK = "lock"
"""In a run directory; held by the process that works on it."""
PACKAGES = ("gymnasium", "numpy", "tokenizers", "torch", "transformers")


@dataclass(frozen=True)
class Run:
    """A run directory with its config; what every stage gets."""

    config: Config
    root: Path
    judge: Judge
    reporter: Reporter

    def stage(self, name: str) -> Path:
        return self.root / name

    @property
    def warm_start(self) -> Path:
        return self.root / (self.config.warm_start or "sft/model")

    def endpoint(self, name: str) -> Path:
        """Checkpoint of the RL run `low`, `high` or of a variant."""
        return self.root / rl_folder(name) / "model"


def rl_folder(name: str) -> str:
    return f"rl_{name.replace(' ', '_')}"


def reproduce(config: Config, out: Path, reporter: Reporter, only: Collection[str] | None = None) -> Path:
    """Runs every stage that is not done yet, or those named in `only`; returns the path of the report.

    Raises `UserError` when `out` belongs to another config or another process is working on it.
    """
    from cef_env.training.hardware import make_repeatable

    make_repeatable()
    resolve("auto")  # without a sandbox this raises, before anything is written
    claim_directory(config, out)
    with exclusive(out / LOCK, f"run directory {str(out)!r}"):
        with Judge(cache=out / "judge.sqlite") as judge:
            run = Run(config, out, judge, reporter)
            for name, work in stages(config).items():
                if only is None or name in only:
                    run_stage(run, name, work)
    return out / "report" / "report.html"


def claim_directory(config: Config, out: Path) -> None:
    """Makes `out` the directory of this config, or refuses when it is another's."""
    path = out / "config.json"
    wanted = config.model_dump(mode="json")
    if path.exists():
        found = read_json(path, f"choose another --out or delete {out}")
        with suppress(ValidationError):  # keys that did not exist yet have their defaults
            found = Config.model_validate(found).model_dump(mode="json")
        if found != wanted:
            key = first_difference(found, wanted)
            raise UserError(
                f"run directory {str(out)!r} was made with another config (key {key}); choose another --out"
            )
        return
    if out.exists() and any(out.iterdir()):
        raise UserError(f"run directory {str(out)!r} is not empty and holds no run; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, wanted)


def run_stage(run: Run, name: str, work: Callable[[Run, Path], None]) -> None:
    """Does one stage unless its manifest says that it is done."""
    folder = run.stage(name)
    manifest = folder / "manifest.json"
    if manifest.exists():
        run.reporter.skip(name)
        return
    resumed = folder.exists()
    folder.mkdir(exist_ok=True)
    wall, cpu = time.monotonic(), time.process_time()
    work(run, folder)
    wall_s, cpu_s = time.monotonic() - wall, time.process_time() - cpu
    write_json(
        manifest,
        {
            "stage": name,
            "seed": run.config.seed,
            "versions": {"cef-env": __version__, **{package: version(package) for package in PACKAGES}},
            "python": platform.python_version(),
            "sandbox_tier": str(run.judge.tier),
            "resumed": resumed,
            "wall_s": round(wall_s, 2),
            "cpu_s": round(cpu_s, 2),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        },
    )
    run.reporter.done(name, wall_s)


def sft_stage(run: Run, folder: Path) -> None:
    from cef_env.training.sft import train_sft

    with run.reporter.bar("sft", run.config.sft.steps) as progress:
        train_sft(run.config, folder, progress, run.judge)


def rl_stage(name: str) -> Callable[[Run, Path], None]:
    """The RL run called `name`: low, high or a variant."""

    def work(run: Run, folder: Path) -> None:
        from cef_env.training.grpo import train_rl

        coverage, rl = run.config.runs()[name]
        config = run.config.model_copy(update={"rl": rl})
        with run.reporter.bar(folder.name, rl.steps) as progress:
            train_rl(config, coverage, run.warm_start, folder, run.judge, progress)

    return work


def report_stage(run: Run, folder: Path) -> None:
    from cef_env.experiment.report import write_run_report

    write_run_report(run.root, run.config)


def stages(config: Config) -> dict[str, Callable[[Run, Path], None]]:
    """What a run of this config does, in order, by the name of its folder."""
    found: dict[str, Callable[[Run, Path], None]] = {} if config.warm_start else {"sft": sft_stage}
    found |= {rl_folder(name): rl_stage(name) for name in config.runs()}
    found["sweep"] = sweep_stage
    if config.variants:
        found["variants"] = variants_stage
    return found | {"report": report_stage}


__all__ = ["Run", "claim_directory", "reproduce", "run_stage", "stages"]
