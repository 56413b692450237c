"""`cef openrlhf`: data and commands for training with OpenRLHF on a cluster, from one YAML file."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cef_env.commands.console import console, errors
from cef_env.errors import InstrumentError, UserError

if TYPE_CHECKING:
    from cef_env.training.openrlhf.launch import Stage

openrlhf_app = typer.Typer(no_args_is_help=True, help="Train on a cluster with OpenRLHF.")
Config = Annotated[str, typer.Argument(help="A YAML file, or the name of an example.")]


@openrlhf_app.command("export")
def openrlhf_export(
    config: Config, out: Annotated[Path, typer.Option(help="The launch folder; data/ is written in it.")]
) -> None:
    """Writes the prompts of every coverage and of evaluation, and the data of the warm start."""
    from cef_env.training.openrlhf.config import load_launch
    from cef_env.training.openrlhf.prompts import export
    from cef_env.ui import Reporter

    loaded = load_launch(config)
    with Reporter(errors).lazy_bar("export") as progress:
        written = export(loaded, out, progress)
    for one in written:
        left = f", left out: {one.dropped} x {one.why}" if one.dropped else ""
        repairs = f", {one.repairs} of them with a first answer to repair" if one.repairs else ""
        rows = f"{one.rows} rows{repairs}"
        console.print(f"{escape(str(one.path))}: {rows}{left}", soft_wrap=True, highlight=False)


@openrlhf_app.command("command")
def openrlhf_command(
    config: Config,
    out: Annotated[
        Path | None, typer.Option(help="Write the launch folder here; without it the commands are printed.")
    ] = None,
    submit: Annotated[
        str | None,
        typer.Option(help="low or high: write the folder and submit this run to the Ray cluster now."),
    ] = None,
) -> None:
    """The commands of the whole launch: export, warm start, RL at each coverage, merge."""
    from cef_env.training.openrlhf.config import load_launch
    from cef_env.training.openrlhf.launch import launch, script, write
    from cef_env.training.openrlhf.prompts import require_problems

    loaded = load_launch(config)
    named = config if not Path(config).exists() else str(Path(config).absolute())
    folder = (out or Path(loaded.name)).absolute()
    stages = launch(loaded, folder, named)
    if submit is not None and submit not in loaded.coverages:
        raise UserError(f"--submit {submit!r}: the runs of this config are {', '.join(loaded.coverages)}")
    if submit is not None and out is None:
        raise UserError("--submit needs --out: the folder that Ray ships to the nodes")
    for name, count in require_problems(loaded).items():
        errors.print(f"coverages.{name}: {count} training problems", markup=False, highlight=False)
    if out is None:
        typer.echo(script(loaded, stages), nl=False)
        return
    console.print(escape(str(write(loaded, folder, named))), soft_wrap=True, highlight=False)
    if submit is not None:
        _submit([stage for stage in stages if stage.name in ("sft", submit)], folder, submit)


def _submit(stages: "list[Stage]", folder: Path, name: str) -> None:
    """Hand one run to the cluster and follow it; its data and warm start must be there."""
    data = folder / "data" / f"{name}.jsonl"
    if not data.is_file():
        raise UserError(f"{data} is missing; run `cef openrlhf export` with the same --out first")
    *before, run = stages
    for stage in before:
        model = stage.result / "config.json"
        if not model.is_file():
            raise UserError(f"{model} is missing; run the {stage.name} line of {folder / 'launch.sh'} first")
    try:
        done = subprocess.run(run.command, check=False)
    except FileNotFoundError as error:
        raise UserError("there is no `ray` command here; install Ray, as OpenRLHF does") from error
    if done.returncode:
        raise InstrumentError(f"ray job submit ended with status {done.returncode}; its log is above")
