"""`cef problems`: look at problem sources, measure them, check their programs, convert them.

What a source leaves out is said on stderr, a line for each reason.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from cef_env.commands.console import console, errors, plain, print_json
from cef_env.errors import UserError

if TYPE_CHECKING:
    from cef_env.judge.check_limits import Check
    from cef_env.problems import ProblemSet
    from cef_env.problems.stats import Stats

problems_app = typer.Typer(no_args_is_help=True, help="Problem sources: list, show, stats, check, export.")
SOURCES = (
    "builtin, lcb:PATH, codecontests+:PATH, codecontests:PATH, taco:PATH, apps:PATH, icpc:PATH, jsonl:PATH"
)
Source = Annotated[str, typer.Argument(help=f"{SOURCES}; options behind ?, as in lcb:PATH?difficulty=hard")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Go on after broken records, and count them.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def open_source(source: str, skip_bad: bool) -> "ProblemSet":
    """The problems of a source, with progress while it is read for the first time, and what it leaves out."""
    from cef_env.problems import load
    from cef_env.problems.index import BrokenRecordError
    from cef_env.ui import Reporter

    try:
        with Reporter(errors).lazy_bar("reading MiB") as progress:
            problems = load(source, skip_bad, progress)
    except BrokenRecordError as error:
        raise UserError(f"{error}; --skip-bad goes on without such records") from error
    for reason, count in problems.skipped.items():
        errors.print(f"left out: {count} x {reason}", markup=False, highlight=False, soft_wrap=True)
    return problems


@problems_app.command("list")
def problems_list(
    source: Source = "builtin",
    skip_bad: SkipBad = False,
    long: Annotated[bool, typer.Option("--long", help="A table: levels, tests, difficulty, date.")] = False,
    as_json: AsJson = False,
) -> None:
    """The ids of a source, one a line."""
    problems = open_source(source, skip_bad)
    if as_json:
        for id_ in problems.ids:
            outline = problems.outline(id_)
            line = {"id": id_, "levels": outline.levels, "tests": outline.tests, **_about(outline)}
            typer.echo(json.dumps(line))
    elif long:
        table = Table(Column("id", overflow="fold"), "tests", "levels", "characters", "difficulty", "date")
        for id_ in problems.ids:
            outline = problems.outline(id_)
            levels = " ".join(map(str, outline.levels))
            cells = (id_, outline.tests, levels, f"{outline.characters:,}", *_about(outline).values())
            table.add_row(*(escape(plain(str(cell or ""))) for cell in cells))
        console.print(table)
    else:
        for id_ in problems.ids:
            console.print(plain(id_), markup=False, highlight=False, soft_wrap=True)


def _about(outline: Any) -> dict[str, str | None]:
    return {"difficulty": outline.difficulty, "date": outline.date}


@problems_app.command("show")
def problems_show(
    source: Source,
    id_: Annotated[str, typer.Argument(metavar="ID")],
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
) -> None:
    """One problem: statement, limits, checker, programs, and how long its tests are."""
    problem = open_source(source, skip_bad).get(id_)
    if as_json:
        print_json(asdict(problem))
        return
    console.print(plain(problem.statement), markup=False, highlight=False)
    if problem.starter_code:
        console.print(f"\nstarter code:\n{plain(problem.starter_code)}", markup=False, highlight=False)
    console.print(f"time limit {problem.time_limit_s:g} s CPU, memory limit {problem.memory_limit_mb} MiB")
    facts = {"difficulty": problem.difficulty, "tags": " ".join(problem.tags), "function": problem.function}
    shown = [f"checker {problem.checker}", *(f"{name} {value}" for name, value in facts.items() if value)]
    console.print(plain(", ".join(shown)), markup=False, highlight=False)
    if problem.submissions:
        kinds = _counted([f"{s.kind} ({s.language})" for s in problem.submissions])
        console.print(f"programs {plain(kinds)}", markup=False, highlight=False)
    console.print(
        f"levels {', '.join(map(str, problem.levels))}; test lengths {[t.length for t in problem.tests]}"
    )


def _counted(names: list[str]) -> str:
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


@problems_app.command("stats")
def problems_stats(source: Source = "builtin", skip_bad: SkipBad = False, as_json: AsJson = False) -> None:
    """How long the tests are, and how many problems each coverage tells apart."""
    from cef_env.problems.stats import measure
    from cef_env.ui import Reporter

    problems = open_source(source, skip_bad)
    with Reporter(errors).lazy_bar("problems") as progress:
        stats = measure(problems, progress)
    if as_json:
        print_json(asdict(stats))
    else:
        show_stats(source, stats)


def show_stats(source: str, stats: "Stats") -> None:
    """The statistics as a table with a bar for each decade."""
    table = Table(
        title=f"{escape(plain(source))}: {stats.problems:,} problems, {stats.tests:,} tests, "
        f"{stats.characters:,} characters of input",
        title_justify="left",
        caption="k: tests with 10^(k-1) <= characters < 10^k; distinguish: R_k and R_k+1 can differ",
        caption_justify="left",
    )
    for name in ("k", "tests", "share", "", "have an R_k", "distinguish k from k+1"):
        table.add_column(name, justify="left" if name == "" else "right")
    largest = max((level.tests for level in stats.levels), default=0) or 1
    for level in stats.levels:
        share = level.tests / stats.tests if stats.tests else 0.0
        bar = "#" * round(24 * level.tests / largest)
        cells = (level.k, f"{level.tests:,}", f"{share:.1%}", bar, level.have_reward, level.distinguish)
        table.add_row(*map(str, cells))
    console.print(table)
    if set(stats.difficulties) != {"none"}:
        parts = ", ".join(f"{name} {count}" for name, count in stats.difficulties.items())
        console.print(f"difficulty: {plain(parts)}", markup=False, highlight=False)


@problems_app.command("check")
def problems_check(
    source: Source,
    skip_bad: SkipBad = False,
    sandbox: Annotated[str, typer.Option(help="auto, or the name of an isolation tier.")] = "auto",
    first: Annotated[int | None, typer.Option(min=1, help="Only the first N problems.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Keeps results here; continues after a kill.")] = None,
    as_json: AsJson = False,
) -> None:
    """Judges the labelled programs of a source: expected against got, and limits that do not hold here."""
    from cef_env.judge import Judge
    from cef_env.judge.check_limits import check
    from cef_env.ui import Reporter

    problems = open_source(source, skip_bad)[:first]
    with (
        Judge(sandbox=sandbox, cache=cache) as judge,
        Reporter(errors).bar("check", max(1, len(problems))) as progress,
    ):
        result = check(problems, judge, len(problems), progress)
    if as_json:
        print_json({**result.to_json(), "tier": str(judge.tier), "skipped": problems.skipped})
    else:
        show_check(result)


def show_check(result: "Check") -> None:
    """Confusion matrix, disagreements, and the limits that cannot be trusted."""
    if not result.programs:
        console.print("no problem of this source carries a labelled program")
        return
    got = [name for name in _OUTCOMES if any(one.got == name for one in result.programs)]
    table = Table(
        "expected", *got, "as labelled", title="programs, expected against got", title_justify="left"
    )
    for expected in dict.fromkeys(pair[0] for pair in sorted(result.confusion)):
        group = [one for one in result.programs if (" or ".join(one.expected) or "unknown") == expected]
        agree = (
            f"{sum(one.agrees is True for one in group)} of {len(group)}" if expected != "unknown" else "-"
        )
        table.add_row(expected, *(str(result.confusion[expected, name] or "") for name in got), agree)
    console.print(table)
    bad = [one for one in result.programs if one.agrees is False or one.got == "judge failed"]
    if bad:
        table = Table(
            "problem", "program", "expected", "got", "detail", title="disagreements", title_justify="left"
        )
        for one in bad:
            program = f"{one.kind} #{one.position + 1} ({one.language})"
            cells = (one.problem_id, program, " or ".join(one.expected) or "unknown", one.got, one.detail)
            table.add_row(*(escape(plain(cell)) for cell in cells))
        console.print(table)
    _show_limits(result)
    console.print(
        f"problems with programs: {len(result.limits)}, without: {result.without_programs}; "
        f"programs: {len(result.programs)}, not as labelled: {len(result.disagreements)}"
    )


_OUTCOMES = ("correct", "optimization_failure", "correctness_failure", "judge failed")


def _show_limits(result: "Check") -> None:
    from cef_env.judge.check_limits import ACCEPTED_FACTOR, TIMEOUT_FACTOR

    doubtful = [limit for limit in result.limits if limit.trusted is False]
    if not doubtful:
        known = sum(limit.trusted is True for limit in result.limits)
        console.print(
            f"time limits: {known} hold here with a margin, {len(result.limits) - known} have no program "
            "that could tell"
        )
        return
    table = Table(
        "problem", "limit s", "slowest accepted s", "must time out", "why",
        title="time limits that cannot be trusted here", title_justify="left",
    )  # fmt: skip
    for limit in doubtful:
        slow, late = limit.slowest_accepted_s, limit.times_out
        why = []
        if slow is not None and slow * ACCEPTED_FACTOR > limit.limit_s:
            why.append(f"limit < {ACCEPTED_FACTOR:g} x slowest accepted")
        if late is False:
            why.append(f"a program that must time out ends within {TIMEOUT_FACTOR:g} x limit")
        state = "-" if late is None else "yes" if late else "too fast"
        cells = (limit.problem_id, f"{limit.limit_s:g}", "-" if slow is None else f"{slow:.2f}", state)
        table.add_row(*(escape(plain(cell)) for cell in (*cells, "; ".join(why))))
    console.print(table)


@problems_app.command("export")
def problems_export(
    source: Source,
    out: Annotated[Path, typer.Option(help="The JSON lines file to write.")],
    skip_bad: SkipBad = False,
) -> None:
    """Writes a source as JSON lines of cef-env, which jsonl:FILE reads."""
    from cef_env.problems import jsonl
    from cef_env.ui import Reporter

    if out.is_dir():
        raise UserError(f"{out} is a folder; give a file name, as in --out problems.jsonl")
    problems = open_source(source, skip_bad)
    with Reporter(errors).lazy_bar("export") as progress:

        def counted() -> "Any":
            for done, problem in enumerate(problems, 1):
                yield problem
                progress(done, len(problems), "")

        count = jsonl.write(out, counted())
    console.print(f"{count} problems: {escape(str(out))}", soft_wrap=True, highlight=False)
