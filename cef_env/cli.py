"""The `cef` command: every subsystem from a terminal. Imports each subsystem only when it is used.

Exit status: 0 when the work is done, 2 when the request was wrong, 3 when the instrument failed, 130 when
interrupted (run the same command again to continue).
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from cef_env.errors import CefError, InstrumentError, UserError
from cef_env.problems_cli import plain, problems_app

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
train_app = typer.Typer(no_args_is_help=True, help="Train on this machine.")
app.add_typer(problems_app, name="problems")
app.add_typer(train_app, name="train")

console = Console()
errors = Console(stderr=True)

Out = Annotated[Path, typer.Option(help="Directory to write.")]
Preset = Annotated[str, typer.Option(help="laptop, smoke, or a YAML file.")]
Sandbox = Annotated[str, typer.Option(help="auto, or the name of an isolation tier.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int | None, typer.Option(help="Replaces the preset's seed.")]


@app.callback()
def options(debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False) -> None:
    """Correctness-efficiency frontiers in code RL: environments, training, merging, evaluation."""
    if debug:
        os.environ["CEF_DEBUG"] = "1"


@app.command()
def reproduce(preset: Preset = "laptop", out: Out = Path("runs/demo"), seed: Seed = None) -> None:
    """The paper in miniature: warm start, RL at two coverages, sweep over alpha, report."""
    from cef_env.experiment import reproduce as run
    from cef_env.training import load_config
    from cef_env.ui import Reporter

    show_run(out, run(load_config(preset, seed), out, Reporter(errors)))


def show_run(out: Path, page: Path) -> None:
    """The tables of a finished run, and where its report is."""
    from cef_env.eval import read_samples
    from cef_env.eval.analysis import analyse
    from cef_env.eval.table import claims_table, outcome_table

    splits = analyse(read_samples(out / "sweep" / "samples.jsonl"))
    for split in splits.values():
        console.print(outcome_table(split))
    console.print(claims_table(splits))
    console.print(f"Report: {escape(str(page))}", soft_wrap=True)


@app.command()
def report(run: Annotated[Path, typer.Argument(help="A run directory of `cef reproduce`.")]) -> None:
    """Writes summary, figures and report of a run again."""
    from cef_env.experiment import write_run_report
    from cef_env.training import Config

    path = run / "config.json"
    if not path.is_file():
        raise UserError(f"{str(run)!r} is no run directory (no config.json); give the --out of cef reproduce")
    if not (run / "sweep" / "manifest.json").is_file():
        raise UserError(f"the sweep of {str(run)!r} is not done; run cef reproduce --out {run} first")
    show_run(run, write_run_report(run, Config.model_validate_json(path.read_text())))


@app.command()
def doctor(
    rounds: Annotated[int, typer.Option(help="How often the self-test runs each program.")] = 3,
    quick: Annotated[bool, typer.Option(help="One round over a third of the programs.")] = False,
    sandbox: Sandbox = "auto",
    seed: Annotated[int, typer.Option(help="Of the order of the programs.")] = 0,
    as_json: Json = False,
) -> None:
    """What this machine can do: isolation, self-test with labelled programs, speed; else status 3."""
    from cef_env.doctor import examine, show
    from cef_env.ui import Reporter

    checkup = examine(sandbox, 1 if quick else rounds, quick, seed, Reporter(errors))
    print_json(checkup.to_json()) if as_json else console.print(show(checkup))
    if not checkup.well:
        raise typer.Exit(3)


@app.command()
def judge(
    problem: Annotated[str, typer.Argument(help="SOURCE#ID, such as builtin:hard#ID")],
    program: Annotated[Path, typer.Argument(help="A .py, .cpp, .cc or .cxx file.")],
    coverage: Annotated[str, typer.Option(help="k, or inf for all tests.")] = "inf",
    exhaustive: Annotated[bool, typer.Option(help="Run every test, also after a failure.")] = False,
    language: Annotated[str | None, typer.Option(help="python, cpp17, cpp20; by default by suffix.")] = None,
    sandbox: Sandbox = "auto",
    speed_factor: Annotated[
        float | None, typer.Option(help="Multiplies time limits; by default CEF_SPEED_FACTOR, else 1.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Judges one program: a verdict for each test, the outcome, R_k for every k."""
    from cef_env.judge import Judge
    from cef_env.judge.languages import parse_language
    from cef_env.judge.table import Witness, show, to_json
    from cef_env.problems import load, parse_coverage

    source, mark, id_ = problem.rpartition("#")
    if not mark:
        raise UserError(f"problem {problem!r}: name it SOURCE#ID; `cef problems list SOURCE` shows ids")
    text = _read(program)
    spoken = parse_language(language or _language_of(program))
    item = load(source).get(id_)
    witness = Witness(item)
    with Judge(workers=1, sandbox=sandbox, speed_factor=speed_factor) as instrument:
        result = instrument.run(
            item, text, parse_coverage(coverage), exhaustive, language=spoken, watch=witness.watch
        )
    if as_json:
        print_json(to_json(item, result, witness.difference))
    else:
        console.print(show(item, result, witness.difference))


def print_json(data: dict[str, Any]) -> None:
    """One JSON document on stdout, for programs: no colours, no wrapping."""
    import json

    print(json.dumps(data, indent=2))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()  # not as text: line ends are the program's own
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"file {str(path)!r} cannot be read as text: {error}") from error


def _language_of(path: Path) -> str:
    suffixes = {".py": "python", ".cpp": "cpp17", ".cc": "cpp17", ".cxx": "cpp17"}
    if path.suffix not in suffixes:
        raise UserError(f"file {str(path)!r}: its suffix names no language; add --language python or cpp17")
    return suffixes[path.suffix]


@app.command()
def play(env_id: Annotated[str, typer.Argument()] = "cef/Reasoning-v0", problems: str = "builtin") -> None:
    """You are the agent: read a problem, type an answer, end it with ctrl-D."""
    import gymnasium as gym

    import cef_env  # noqa: F401 - registers the environments

    try:
        env = gym.make(env_id, problems=problems, render_mode="ansi")
    except gym.error.UnregisteredEnv as error:
        raise UserError(f"environment {env_id!r} is unknown; use cef/Reasoning-v0") from error
    observation, _ = env.reset()
    done = False
    while not done:
        console.print(observation, markup=False, highlight=False)
        observation, reward, terminated, truncated, info = env.step(sys.stdin.read())
        done = terminated or truncated
    console.print(observation, markup=False, highlight=False, end="")
    console.print(f"reward {reward:g}, coverage reached {info['coverage_reached']}")
    env.close()


@app.command()
def rollout(
    agent: Annotated[str, typer.Option(help="scripted:NAME, hf:PATH or module:attr")],
    out: Out,
    env: Annotated[str, typer.Option(help="Environment id.")] = "cef/Reasoning-v0",
    problems: Annotated[str, typer.Option(help="Problem source.")] = "builtin",
    coverage: Annotated[str, typer.Option(help="k, or inf for all tests.")] = "inf",
    seed: int = 0,
) -> None:
    """An agent plays every problem of a source once; trajectories go to OUT/trajectories.jsonl."""
    from cef_env.agents.record import record_rollouts

    sys.path.insert(0, os.getcwd())  # where the module of module:attr usually is
    outcomes = record_rollouts(env, agent, problems, coverage, seed, out)
    for outcome, count in outcomes.items():
        console.print(f"{outcome:<22}{count}")
    console.print(f"Trajectories: {escape(str(out / 'trajectories.jsonl'))}", soft_wrap=True)


@app.command()
def merge(
    low: Annotated[Path, typer.Argument(help="Checkpoint of the smaller coverage (alpha 0).")],
    high: Annotated[Path, typer.Argument(help="Checkpoint of the larger coverage (alpha 1).")],
    out: Out,
    alpha: Annotated[str, typer.Option(help="Numbers and ranges: -0.5:1.5:0.25 or 0.5,1.2")],
) -> None:
    """Writes theta(alpha) = alpha * high + (1 - alpha) * low for every alpha."""
    from cef_env.merge import plan, run

    for path in run(plan(low, high, parse_alphas(alpha)), out):
        console.print(escape(str(path)), soft_wrap=True)


def parse_alphas(text: str) -> list[float]:
    """Alphas from `a,b,c` and `start:stop:step` (both ends included)."""
    alphas: list[float] = []
    for part in text.split(","):
        try:
            numbers = [float(piece) for piece in part.split(":")]
        except ValueError as error:
            raise UserError(f"alpha {part!r} is not a number or start:stop:step") from error
        if len(numbers) == 1:
            alphas += numbers
            continue
        if len(numbers) != 3 or numbers[2] <= 0 or numbers[1] < numbers[0]:
            raise UserError(f"alpha range {part!r}: use start:stop:step with start <= stop and step > 0")
        start, stop, step = numbers
        count = round((stop - start) / step)
        alphas += [round(start + i * step, 10) for i in range(count + 1) if start + i * step <= stop + 1e-9]
    return alphas


@train_app.command("sft")
def train_sft(out: Out, preset: Preset = "laptop", seed: Seed = None) -> None:
    """The warm start of a preset alone."""
    from cef_env.training import load_config
    from cef_env.training.sft import train_sft as work
    from cef_env.ui import Reporter

    config = load_config(preset, seed)
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
) -> None:
    """One RL run at one coverage."""
    from cef_env.agents.transformers_agent import require_checkpoint
    from cef_env.judge import Judge
    from cef_env.problems import parse_coverage
    from cef_env.training import load_config
    from cef_env.training.grpo import train_rl as work
    from cef_env.ui import Reporter

    config = load_config(preset, seed)
    require_checkpoint(warm_start)
    out.mkdir(parents=True, exist_ok=True)
    with (
        Judge(cache=out / "judge.sqlite") as instrument,
        Reporter(errors).bar("rl", config.rl.steps) as progress,
    ):
        path = work(config, parse_coverage(coverage), warm_start, out, instrument, progress)
    console.print(escape(str(path)), soft_wrap=True)


def main() -> Any:
    """Entry point of the `cef` command."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # one progress bar is enough: ours
    try:
        return app()
    except (CefError, OSError, KeyboardInterrupt) as error:
        if os.environ.get("CEF_DEBUG"):
            raise
        if isinstance(error, OSError):  # disk full, no permission, a file where a folder should be
            place = "" if error.filename is None else f" ({error.filename})"
            errors.print(
                f"cef: {error.strerror or error}{place}; run the same command again when this is mended",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            sys.exit(2)
        if isinstance(error, KeyboardInterrupt):
            errors.print("interrupted; run the same command again to continue")
            sys.exit(130)
        errors.print(plain(f"cef: {error}"), markup=False, highlight=False, soft_wrap=True)
        sys.exit(3 if isinstance(error, InstrumentError) else 2)


if __name__ == "__main__":
    main()
