"""The stages of `cef reproduce`: warm start, two RL runs, sweep over alpha, report.

Each stage leaves its artefacts and a manifest in its own folder of the run directory and is skipped when
it is done; within a stage, training and sampling continue where they were. Killed at any moment and run
again, the run ends with the same summary.json. Command: `cef reproduce --preset laptop --out runs/demo`.
"""

import json
import platform
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from cef_env import __version__
from cef_env.errors import UserError
from cef_env.eval.plan import FILE, Plan, Work, first_difference
from cef_env.eval.records import Member
from cef_env.files import exclusive, read_json, write_json
from cef_env.judge import Judge
from cef_env.problems import ProblemSet
from cef_env.sandbox.tiers import resolve
from cef_env.training.config import Config
from cef_env.ui import Reporter

NOTES = (
    "The model is tiny and the problems are generated: this run says whether the "
    "paper's picture appears in miniature, not how large its effects are.",
    "One seed is one draw. Before drawing a conclusion, repeat with other seeds (`cef reproduce --seed`).",
)
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
        return self.root / "sft" / "model"

    def endpoint(self, name: str) -> Path:
        return self.root / f"rl_{name}" / "model"


def reproduce(config: Config, out: Path, reporter: Reporter) -> Path:
    """Runs every stage that is not done yet; returns the path of the report.

    Raises `UserError` when `out` belongs to another config or another process is working on it.
    """
    from cef_env.training.hardware import make_repeatable

    make_repeatable()
    resolve("auto")  # without a sandbox this raises, before anything is written
    claim_directory(config, out)
    with exclusive(out / "lock", f"run directory {str(out)!r}"):
        with Judge(cache=out / "judge.sqlite") as judge:
            run = Run(config, out, judge, reporter)
            for name, work in STAGES.items():
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
    """The RL run at the coverage called `name` (low or high)."""

    def work(run: Run, folder: Path) -> None:
        from cef_env.training.grpo import train_rl

        coverage = run.config.coverages[name]  # type: ignore[index]
        with run.reporter.bar(f"rl_{name}", run.config.rl.steps) as progress:
            train_rl(run.config, coverage, run.warm_start, folder, run.judge, progress)

    return work


def evaluation_problems(config: Config) -> dict[str, ProblemSet]:
    """The held-out problems of each split: fixed by the seed, disjoint from training by composition."""
    from cef_env.training.settings import problems_of

    return {
        split: problems_of(config, split, count, config.seed)
        for split, count in config.sweep.problems.items()
    }


def sweep_stage(run: Run, folder: Path) -> None:
    from cef_env.agents.transformers_agent import TransformersAgent, load_model
    from cef_env.eval.sampling import sweep
    from cef_env.merge import apply_alpha, load_state_dict
    from cef_env.training.hardware import Hardware
    from cef_env.training.settings import ENVIRONMENTS, env_options

    config = run.config
    model, tokenizer = load_model(run.warm_start)
    model.to(Hardware.choose("float32").device)
    agent = TransformersAgent(model, tokenizer, config.sweep.temperature, config.max_new_tokens)
    low, high = (load_state_dict(run.endpoint(name)) for name in ("low", "high"))

    def agent_of(member: Member) -> TransformersAgent:
        assert member.alpha is not None
        apply_alpha(model, low, high, member.alpha)
        return agent

    problems = evaluation_problems(config)
    plan = sweep_plan(config, problems)
    keep_plan(folder, plan)
    with run.reporter.bar("sweep", sum(chunk.size for chunk in plan.chunks())) as progress:
        env_id, options = ENVIRONMENTS[config.setting], env_options(config)
        sweep(plan, folder, agent_of, problems, run.judge, config.seed, progress, env_id, options)


def sweep_plan(config: Config, problems: dict[str, ProblemSet]) -> Plan:
    """Alphas outer loop; a chunk holds all answers to some problems."""
    work = tuple(
        Work(Member(alpha), split, problem_set.ids, config.sweep.samples)
        for alpha in config.sweep.alphas
        for split, problem_set in problems.items()
    )
    identity = {"seed": config.seed, "temperature": config.sweep.temperature}
    return Plan(work, config.sweep.chunk_problems, config.sweep.samples, identity)


def keep_plan(folder: Path, plan: Plan) -> None:
    """Writes the plan of a sweep that has none: runs of earlier versions kept samples alone, and their
    config.json says already whose they are."""
    if not (folder / FILE).exists():
        write_json(folder / FILE, plan.to_json())


def report_stage(run: Run, folder: Path) -> None:
    write_run_report(run.root, run.config)


def write_run_report(root: Path, config: Config, out: Path | None = None) -> Path:
    """Summary, figures and report of a run whose sweep is done; returns the path of the page.

    `out`: by default `report` inside the run.

    The summary holds only what samples and config determine, so that equal runs give equal files.
    """
    from cef_env.eval import read_tables
    from cef_env.eval.reader import read_answers
    from cef_env.eval.report import write_report

    keep_plan(root / "sweep", sweep_plan(config, evaluation_problems(config)))
    tables = read_tables(root / "sweep")
    remedy = "delete it, and run the same command again"
    manifests = [read_json(path, remedy) for path in root.glob("*/manifest.json")]
    manifests.sort(key=lambda manifest: list(STAGES).index(manifest["stage"]))
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
        for name in ("rl_low", "rl_high")
        for line in (root / name / "log.jsonl").read_text().splitlines()
    ]
    notes = list(NOTES)
    if config.preset == "smoke":
        notes.insert(0, "This is the smoke preset: the model is hardly trained and the numbers mean nothing.")
    low, high = (root / f"rl_{name}" / "model" / "model.safetensors" for name in ("low", "high"))
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


STAGES: dict[str, Callable[[Run, Path], None]] = {
    "sft": sft_stage,
    "rl_low": rl_stage("low"),
    "rl_high": rl_stage("high"),
    "sweep": sweep_stage,
    "report": report_stage,
}

__all__ = [
    "STAGES",
    "Run",
    "claim_directory",
    "evaluation_problems",
    "reproduce",
    "run_stage",
    "write_run_report",
]
