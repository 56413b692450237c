"""`cef eval` and `cef report`: sampling a sweep, and what it found as tables, figures and one page."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from cef_env.commands.console import Out, console, errors
from cef_env.commands.merging import parse_alphas
from cef_env.errors import UserError

eval_app = typer.Typer(
    help="Sample and judge a sweep over alpha; join, import and export sweeps.",
    invoke_without_command=True,
)
Folder = Annotated[Path, typer.Argument(help="A folder of cef eval.")]


@eval_app.callback()
def evaluate(
    context: typer.Context,
    problems: Annotated[
        str, typer.Option(help="SOURCE or NAME=SOURCE, several with commas.")
    ] = "builtin:hard",
    samples: Annotated[int, typer.Option(help="Answers to each problem by each member.")] = 10,
    out: Out = Path("runs/eval"),
    agent: Annotated[str | None, typer.Option(help="Agent string; by default hf:LOW.")] = None,
    env: Annotated[str, typer.Option(help="Environment id.")] = "cef/Reasoning-v0",
    alphas: Annotated[str, typer.Option(help="-0.5:1.5:0.25 or 0,1; one alone labels --agent.")] = "",
    low: Annotated[Path | None, typer.Option(help="Checkpoint of the smaller coverage (alpha 0).")] = None,
    high: Annotated[Path | None, typer.Option(help="Checkpoint of the larger coverage (alpha 1).")] = None,
    member: Annotated[list[str] | None, typer.Option(help="LABEL=AGENT; a number is an alpha.")] = None,
    control: Annotated[
        list[str] | None, typer.Option(help="random-direction, or temperature=1.2,1.5; may be repeated.")
    ] = None,
    shard: Annotated[str | None, typer.Option(help="i/n: this process does every n-th chunk.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Of sampling.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Token budget of one message.")] = None,
    chunk_problems: Annotated[int, typer.Option(help="Problems sampled at once.")] = 4,
    chunk_samples: Annotated[int, typer.Option(help="Answers to each of them sampled at once.")] = 25,
    seed: int = 0,
) -> None:
    """Samples and judges N answers to every problem by every member; killed, run the same command again."""
    if context.invoked_subcommand is not None:
        return
    from cef_env.eval.run import Request, parse_shard, run_sweep
    from cef_env.ui import Reporter

    sys.path.insert(0, os.getcwd())  # where the module of module:attr usually is
    request = Request(
        tuple(problems.split(",")), samples, agent, env, tuple(parse_alphas(alphas)) if alphas else (), low,
        high, tuple(member or ()), tuple(control or ()), seed, temperature, max_new_tokens, chunk_problems,
        chunk_samples, parse_shard(shard),
    )  # fmt: skip
    with Reporter(errors).bar("eval", 1) as progress:
        folder = run_sweep(request, out, progress)
    if request.shard is None:
        show_sweep(folder)
    else:
        console.print(f"Shard: {escape(str(folder))}; when all are there: cef eval join {escape(str(out))}")


@eval_app.command("join")
def join_shards(
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    shards: Annotated[list[Path] | None, typer.Argument(help="By default OUT/shard-*.")] = None,
) -> None:
    """Joins the shards of one sweep."""
    from cef_env.eval.join import join
    from cef_env.ui import Reporter

    with Reporter(errors).bar("join", 1) as progress:
        join(out, shards or [], progress)
    show_sweep(out)


@eval_app.command("compact")
def compact_samples(folder: Folder) -> None:
    """Replaces samples.jsonl of a complete sweep by samples.parquet, which is smaller and faster to read."""
    from cef_env.eval.tables import compact

    console.print(escape(str(compact(folder))), soft_wrap=True)


@eval_app.command("import")
def import_files(
    files: Annotated[list[str], typer.Argument(help="FILE, or LABEL=FILE; a number as LABEL is an alpha.")],
    problems: Annotated[str, typer.Option(help="SOURCE or NAME=SOURCE that was answered.")],
    out: Out,
    form: Annotated[str, typer.Option("--format", help="lcb (LiveCodeBench's output) or jsonl.")] = "jsonl",
    alpha: Annotated[str, typer.Option(help="Alpha or label of answers that name none.")] = "0",
) -> None:
    """Judges answers that were generated elsewhere; the folder is then one of cef eval."""
    from cef_env.eval.importing import import_answers, read_answers
    from cef_env.eval.records import Member
    from cef_env.eval.run import JUDGE_CACHE, load_splits
    from cef_env.judge import Judge
    from cef_env.ui import Reporter

    ((split, problem_set),) = load_splits((problems,)).items()
    answers = read_answers(files, form, Member.parse(alpha))
    with Judge(cache=out / JUDGE_CACHE) as judge, Reporter(errors).bar("import", 1) as progress:
        import_answers(answers, problem_set, split, out, judge, progress)
    answered = len({id_ for by_problem in answers.values() for id_ in by_problem})
    if answered < len(problem_set.ids):
        errors.print(
            f"warning: {answered} of {len(problem_set.ids)} problems have answers, the others do not count"
        )
    show_sweep(out)


@eval_app.command("export")
def export(
    folder: Folder,
    csv: Annotated[Path | None, typer.Option(help="File to write.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="File to write; needs pyarrow.")] = None,
) -> None:
    """Counts by member and problem as a flat table."""
    from cef_env.eval import exporting, read_tables

    if csv is None and parquet is None:
        raise UserError("nothing to write: give --csv FILE or --parquet FILE")
    tables = read_tables(folder)
    for path, write in ((csv, exporting.write_csv), (parquet, exporting.write_parquet)):
        if path is not None:
            write(tables, path)
            console.print(escape(str(path)), soft_wrap=True)


@eval_app.command("rules")
def rules(
    folder: Folder,
    problems: Annotated[str, typer.Option(help="NAME=SOURCE; by default those of the sweep.")] = "",
) -> None:
    """Judges the programs again, exhaustively, and compares the outcomes with those of the first failure."""
    from rich.table import Table

    from cef_env.eval.counts import OUTCOMES
    from cef_env.eval.plan import read_plan
    from cef_env.eval.rules import compare_rules
    from cef_env.eval.run import JUDGE_CACHE, load_splits
    from cef_env.judge import Judge
    from cef_env.problems import load
    from cef_env.ui import Reporter

    known = read_plan(folder).config.get("problems", {})
    sources = tuple(problems.split(",")) if problems else ()
    splits = load_splits(sources) if sources else {name: load(source) for name, source in known.items()}
    with Judge(cache=folder / JUDGE_CACHE) as judge, Reporter(errors).bar("rules", 1) as progress:
        found = compare_rules(folder, splits, judge, progress)
    for split, comparison in found.items():
        title = f"{split}: rows by the first failure, columns exhaustively; they agree on "
        table = Table(title=f"{title}{comparison.agreement:.1%} of the answers", title_justify="left")
        table.add_column("")
        for outcome in OUTCOMES:
            table.add_column(outcome.value.replace("_", " "), justify="right")
        for first in OUTCOMES:
            cells = [str(comparison.answers.get((first, second), 0)) for second in OUTCOMES]
            table.add_row(first.value.replace("_", " "), *cells)
        console.print(table)
    console.print(f"By member: {escape(str(folder / 'rules.json'))}", soft_wrap=True)


@eval_app.command("show")
def show(
    folder: Folder,
    partial: Annotated[bool, typer.Option(help="Of what is there, while it is still running.")] = False,
) -> None:
    """Outcome rates of every member."""
    show_sweep(folder, partial)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Runs of cef reproduce or folders of cef eval.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write; by default RUN/report, or comparison for several.")
    ] = None,
) -> None:
    """Writes summary, figures and page of a run; of several runs one page that compares them."""
    if len(runs) > 1:
        from cef_env.eval.comparison import write_comparison
        from cef_env.eval.folder_report import read_result

        page = write_comparison(out or Path("comparison"), [read_result(run) for run in runs])
        console.print(f"Comparison: {escape(str(page))}", soft_wrap=True)
        return
    run = runs[0]
    if (run / "study.json").is_file():
        from cef_env.experiment.study_report import write_results

        show_study(run, write_results(run, out or run / "results"))
        return
    if (run / "plan.json").is_file():
        from cef_env.eval.folder_report import write_folder_report

        page = write_folder_report(run, out)
        show_sweep(run)
        console.print(f"Report: {escape(str(page))}", soft_wrap=True)
        return
    from cef_env.experiment.report import write_run_report
    from cef_env.training import Config

    path = run / "config.json"
    if not path.is_file():
        raise UserError(
            f"{str(run)!r} is no run (neither config.json nor plan.json); give the --out of cef reproduce or "
            "cef eval"
        )
    if not (run / "sweep" / "manifest.json").is_file():
        raise UserError(f"the sweep of {str(run)!r} is not done; run cef reproduce --out {run} first")
    try:
        config = Config.model_validate_json(path.read_text())
    except ValueError as error:
        raise UserError(
            f"{path}: no configuration of this version; use the version that made the run"
        ) from error
    show_run(run, write_run_report(run, config, out))


def show_run(out: Path, page: Path) -> None:
    """The tables of a finished run, and where its report is."""
    show_sweep(out / "sweep")
    console.print(f"Report: {escape(str(page))}", soft_wrap=True)


def show_study(out: Path, page: Path) -> None:
    """The table of claims of a study, and where its page is."""
    from cef_env.eval.study_page import claims_table
    from cef_env.files import read_json

    console.print(claims_table(read_json(page.parent / "claims.json", f"run cef report {out}")))
    console.print(f"Report: {escape(str(page))}", soft_wrap=True)


def show_sweep(folder: Path, partial: bool = False) -> None:
    """Outcome rates of a sweep, and claims where an alpha was sampled; the numbers of its page."""
    from cef_env.eval import read_tables
    from cef_env.eval.analysis import analyse
    from cef_env.eval.plan import read_plan
    from cef_env.eval.table import claims_table, outcome_table

    tables = read_tables(folder, partial)
    splits = analyse(tables, int(read_plan(folder).config.get("seed", 0)))
    for split in splits.values():
        console.print(outcome_table(split))
    if any(split.claims for split in splits.values()):
        console.print(claims_table(splits))
