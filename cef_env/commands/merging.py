"""`cef merge`: checkpoints and LoRA adapters at alphas inside and outside [0, 1]."""

import gc
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from cef_env.commands.console import Out, console, errors, plain
from cef_env.errors import UserError

if TYPE_CHECKING:
    from cef_env.merge import Plan
    from cef_env.merge.lora import AdapterPlan
    from cef_env.merge.statistics import Report


def merge(
    checkpoints: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOW HIGH",
            help="Checkpoints or LoRA adapters: alpha 0 and alpha 1. With "
            "--weights or --at more than two, lowest coverage first.",
        ),
    ],
    out: Out,
    alphas: Annotated[
        list[str] | None,
        typer.Option("--alpha", help="Numbers and ranges: -0.5:1.5:0.25 or 0.5,1.2. Repeatable."),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(help="Weights that sum to 1, one per checkpoint: 0.5,0.7,-0.2. Repeatable."),
    ] = None,
    at: Annotated[str | None, typer.Option(help="Coverages of the checkpoints, ascending: 1,3,5")] = None,
    coverage: Annotated[str | None, typer.Option(help="With --at: coverages to make, as --alpha.")] = None,
    out_dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16, float16; default: as stored.")
    ] = None,
    rounding: Annotated[str, typer.Option("--round", help="nearest or stochastic.")] = "nearest",
    seed: Annotated[int, typer.Option(help="Of stochastic rounding.")] = 0,
    max_shard: Annotated[float | None, typer.Option(help="GB per file; default: the shards of HIGH.")] = None,
    tokenizer_from: Annotated[str, typer.Option(help="low or high.")] = "high",
    exact: Annotated[bool, typer.Option("--exact-stats", help="Statistics over all elements.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and measure; write nothing.")] = False,
) -> None:
    """Writes theta(alpha) = alpha * HIGH + (1 - alpha) * LOW for every alpha."""
    with errors.status("loading; the first time on a machine this compiles for some seconds"):
        from cef_env.merge import plan, plan_path, plan_sum, run, stats
    from cef_env.merge.lora import is_adapter

    alpha = ",".join(alphas) if alphas else None
    if [alpha, weights or None, at].count(None) != 2:
        raise UserError("give one of --alpha, --weights, or --at with --coverage")
    if (at is None) != (coverage is None):
        raise UserError("--at and --coverage go together: where the checkpoints are, and what to make")
    if alpha is not None and len(checkpoints) != 2:
        raise UserError(
            f"--alpha needs two checkpoints, got {len(checkpoints)}; see --weights and --at for more"
        )
    adapters = [path for path in checkpoints if is_adapter(path)]
    if adapters and len(adapters) < len(checkpoints):
        raise UserError(
            f"{adapters[0]}: is an adapter, others are models; give adapters only, or merge it into its base "
            "first (merge_and_unload)"
        )
    if adapters:
        _adapters(checkpoints, out, alpha, out_dtype, dry_run)
        return
    options: dict[str, Any] = {
        "out_dtype": out_dtype, "round": rounding, "seed": seed, "tokenizer_from": tokenizer_from, "out": out,
        "max_shard": None if max_shard is None else _bytes(max_shard),
    }  # fmt: skip
    if alpha is not None:
        made = plan(checkpoints[0], checkpoints[1], parse_alphas(alpha), **options)
    elif weights:
        made = plan_sum(checkpoints, [_numbers(text, "--weights") for text in weights], **options)
    else:
        ks = _numbers(at or "", "--at")
        if len(ks) != len(checkpoints) or sorted(set(ks)) != ks:
            raise UserError(
                f"--at {at}: give one coverage for each of {len(checkpoints)} checkpoints, ascending"
            )
        made = plan_path(dict(zip(ks, checkpoints)), parse_alphas(coverage or ""), **options)
    _say_plan(made)
    gc.freeze()  # what numba brought stays: no need to look for cycles in it during the merge
    report = stats(made, exact)
    _say_report(made, report)
    if dry_run:
        return
    with _bar() as bar:
        task = bar.add_task("merging", total=made.bytes_total)
        paths = run(made, out, lambda done, total: bar.update(task, completed=done, total=total), report)
    for path in paths:
        console.print(escape(str(path)), soft_wrap=True)


def _adapters(
    checkpoints: list[Path], out: Path, alpha: str | None, out_dtype: str | None, dry_run: bool
) -> None:
    from cef_env.merge import merge_adapters
    from cef_env.merge.lora import plan_adapters

    if alpha is None:
        raise UserError("adapters are merged two at a time: use --alpha")
    alphas = parse_alphas(alpha)
    _say_adapters(plan_adapters(checkpoints[0], checkpoints[1], alphas, out, out_dtype or "float32"))
    if dry_run:
        return
    for path in merge_adapters(checkpoints[0], checkpoints[1], alphas, out, out_dtype or "float32"):
        console.print(escape(str(path)), soft_wrap=True)


def _say_adapters(made: "AdapterPlan") -> None:
    """The plan of a merge of adapters, on stderr as that of checkpoints is."""
    ranks = " and ".join(str(adapter.config["r"]) for adapter in made.pair)
    lines = [
        f"{len(made.names)} modules, {made.elements / 1e6:.4g} M weights, rank {made.rank} (inputs {ranks})",
        f"{len(made.alphas)} outputs of {made.bytes_per_output / 1e6:.4g} MB in {made.out_dtype}",
        *(
            f"{path.name}: {'is there already' if alpha in made.finished else 'to be written'}"
            for alpha, path in made.targets.items()
        ),
    ]
    for line in lines:
        errors.print(plain(line), markup=False, highlight=False, soft_wrap=True)


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), DownloadColumn(),
               TransferSpeedColumn(), TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    return Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)


def _say_plan(made: "Plan") -> None:
    elements = sum(info.numel for info in made.high.tensors.values())
    free = "" if made.free_bytes is None else f", {made.free_bytes / 1e9:.2f} GB free"
    lines = [
        f"{len(made.high.tensors)} tensors, {elements / 1e6:.4g} M weights, plan {made.hash}",
        f"{len(made.outputs)} outputs of {made.bytes_per_output / 1e9:.4g} GB: "
        f"{made.bytes_total / 1e9:.4g} GB{free}",
        *(f"warning: {line}" for line in made.warnings),
    ]
    for line in lines:
        errors.print(plain(line), markup=False, highlight=False, soft_wrap=True)


def _say_report(made: "Plan", report: "Report") -> None:
    """What rounding leaves of each output, on stderr: stdout is for the directories."""
    of = "all weights" if report.sampled["exact"] else f"a sample of {report.sampled['elements']:,} weights"
    table = Table(title=f"rms of the delta {report.delta['rms']:.3g}; {of}", title_justify="left")
    two = len(made.sources) == 2
    for column in (
        "output",
        "effective " + ("alpha" if two else "weights"),
        "unchanged",
        "as low",
        "as high",
    ):
        table.add_column(column, justify="left" if column == "output" else "right")
    for output in made.outputs:
        got = report.outputs[output.name]
        weights = got["effective_weights"]
        numbers = "-" if weights is None else ", ".join(f"{w:.4g}" for w in weights[1 if two else 0 :])
        shares = [f"{got[key]:.1%}" for key in ("frac_unchanged", "frac_equal_low", "frac_equal_high")]
        table.add_row(escape(output.name), numbers, *shares)
    errors.print(table)
    for line in report.warnings:
        errors.print(plain(f"warning: {line}"), markup=False, highlight=False, soft_wrap=True)


def _bytes(gigabytes: float) -> int:
    if not (math.isfinite(gigabytes) and gigabytes > 0):
        raise UserError(f"--max-shard {gigabytes:g}: give a number of GB above 0")
    return max(1, int(min(gigabytes, 1e9) * 1e9))  # more than any disk means: one file


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(piece) for piece in text.split(",")]
    except ValueError as error:
        raise UserError(f"{option} {text!r}: give numbers with commas between them") from error


def parse_alphas(text: str) -> list[float]:
    """Alphas from `a,b,c` and `start:stop:step` (both ends included)."""
    from cef_env.merge.planning import MAX_OUTPUTS

    alphas: list[float] = []
    for part in text.split(","):
        try:
            numbers = [float(piece) for piece in part.split(":")]
        except ValueError as error:
            raise UserError(f"alpha {part!r} is not a number or start:stop:step") from error
        if not all(map(math.isfinite, numbers)):
            raise UserError(f"alpha {part!r} is not finite; give finite numbers")
        if len(numbers) == 1:
            alphas += numbers
            continue
        if len(numbers) != 3 or numbers[2] <= 0 or numbers[1] < numbers[0]:
            raise UserError(f"alpha range {part!r}: use start:stop:step with start <= stop and step > 0")
        start, stop, step = numbers
        count = (stop - start) / step
        if not count < MAX_OUTPUTS:
            raise UserError(
                f"alpha range {part!r} has {count + 1:.7g} values; one merge writes at most {MAX_OUTPUTS}"
            )
        alphas += [
            round(start + i * step, 10) for i in range(round(count) + 1) if start + i * step <= stop + 1e-9
        ]
    return alphas
