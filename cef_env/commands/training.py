"""`cef reproduce` and `cef train`: the paper in miniature, and its training stages alone."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from cef_env.commands.console import Out, Preset, Seed, Setting, console, errors
from cef_env.commands.evaluation import show_run, show_study
from cef_env.errors import UserError

train_app = typer.Typer(no_args_is_help=True, help="Train on this machine.")


def reproduce(
    preset: Preset = "laptop", out: Out = Path("runs/demo"), seed: Seed = None, setting: Setting = None
) -> None:
    """The paper in miniature: warm start, RL at two coverages, sweep over alpha, report."""
    from cef_env.experiment.stages import reproduce as run
    from cef_env.experiment.study import is_study, load_study, run_study
    from cef_env.training import load_config
    from cef_env.ui import Reporter

    if is_study(preset):
        if seed is not None or setting is not None:
            raise UserError(f"preset {preset!r} is a study, which has seeds and settings of its own")
        show_study(out, run_study(load_study(preset), out, Reporter(errors)))
        return
    show_run(out, run(load_config(preset, seed, setting), out, Reporter(errors)))


@train_app.command("sft")
def train_sft(out: Out, preset: Preset = "laptop", seed: Seed = None, setting: Setting = None) -> None:
    """The warm start of a preset alone."""
    from cef_env.training import load_config
    from cef_env.training.hardware import make_repeatable
    from cef_env.training.sft import train_sft as work
    from cef_env.ui import Reporter

    config = load_config(preset, seed, setting)
    make_repeatable()
    with Reporter(errors).bar("sft", config.sft.steps) as progress:
        path = work(config, out, progress)
    console.print(escape(str(path)), soft_wrap=True)


@train_app.command("rl")
def train_rl(
    warm_start: Annotated[Path, typer.Argument(help="A checkpoint directory.")],
    out: Out,
    coverage: Annotated[str, typer.Option(help="k, or inf for all tests.")],
    preset: Preset = "laptop",
    seed: Seed = None,
    setting: Setting = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write OUT/tensorboard.")] = False,
) -> None:
    """One RL run at one coverage."""
    from cef_env.agents.transformers_agent import require_checkpoint
    from cef_env.judge import Judge
    from cef_env.problems import parse_coverage
    from cef_env.training import load_config
    from cef_env.training.grpo import train_rl as work
    from cef_env.training.hardware import make_repeatable
    from cef_env.ui import Reporter

    config = load_config(preset, seed, setting)
    require_checkpoint(warm_start)
    make_repeatable()
    out.mkdir(parents=True, exist_ok=True)
    with (
        Judge(cache=out / "judge.sqlite") as instrument,
        Reporter(errors).bar("rl", config.rl.steps) as progress,
    ):
        path = work(config, parse_coverage(coverage), warm_start, out, instrument, progress, tensorboard)
    console.print(escape(str(path)), soft_wrap=True)
