"""Turns a directory of merged shards into a complete Hugging Face checkpoint, atomically.

Copies what is not a weight from `high` (config, tokenizer, generation config, chat templates, licence),
writes the index, a model card and `cef_merge.json`, syncs everything and renames the directory.
"""

import json
import os
import shutil
from io import BufferedWriter
from pathlib import Path
from typing import Any, BinaryIO

from cef_env.errors import UserError
from cef_env.merge.checkpoint import INDEX, SINGLE, read_json
from cef_env.merge.planning import OUT_DTYPES, Plan

RECORD = "cef_merge.json"
STATS = ".stats.json"

_WEIGHTS = {
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".gguf",
    ".h5",
    ".msgpack",
    ".onnx",
    ".ckpt",
    ".tmp",
    ".lock",
}
_NOT_COPIED = {"README.md", RECORD, "trainer_state.json", "config.json"}


def is_complete(target: Path, recipe: dict[str, Any]) -> bool:
    """Whether `target` is the finished output of this recipe; a `UserError` if it is anything else."""
    if not target.exists():
        return False
    if (target / RECORD).is_file() and read_json(target / RECORD).get("recipe") == recipe:
        return True
    raise UserError(
        f"{target}: exists and holds something else; remove it or choose another output directory"
    )


def finish(plan: Plan, alpha: float, partial: Path, target: Path) -> list[str]:
    """Complete `partial` and rename it to `target`; returns warnings about this alpha."""
    leftovers = [partial / f"{file}{STATS}" for file in plan.high.files]
    # They are removed only when the record is on disk, so without them there is nothing left to write.
    if all(path.exists() for path in leftovers):
        _write_record(plan, alpha, partial, leftovers)
        sync_directory(partial)
    notes = _notes(alpha, read_json(partial / RECORD))
    for path in leftovers:
        path.unlink(missing_ok=True)
    sync_directory(partial)
    partial.rename(target)
    sync_directory(target.parent)
    return notes


def _write_record(plan: Plan, alpha: float, partial: Path, stats_files: list[Path]) -> None:
    """Everything of the output but its weights; the record comes last."""
    from cef_env.merge.kernel import Stats

    stats = Stats()
    for path in stats_files:
        stats.merge(Stats(**read_json(path)))
    summary = stats.summary()
    _copy_side_files(plan.high.path, partial)
    config = dict(plan.high.config)
    if plan.out_dtype is not None:
        name = next(long for long, short in OUT_DTYPES.items() if short == plan.out_dtype)
        config.update({key: name for key in ("dtype", "torch_dtype") if key in config})
    write_json(partial / "config.json", config)
    if plan.high.files != [SINGLE]:
        weight_map = {info.name: info.file for info in plan.high.tensors.values()}
        write_json(
            partial / INDEX, {"metadata": {"total_size": plan.bytes_per_alpha}, "weight_map": weight_map}
        )
    record = {
        "alpha": alpha,
        "low": {"name": plan.low.path.resolve().name, "fingerprint": plan.low.fingerprint},
        "high": {"name": plan.high.path.resolve().name, "fingerprint": plan.high.fingerprint},
        **summary,
        "warnings": [*plan.warnings, *_notes(alpha, summary)],
        "recipe": plan.recipe(alpha),
    }
    write_text(partial / "README.md", model_card(plan, record))
    write_json(partial / RECORD, record)


def _notes(alpha: float, summary: dict[str, Any]) -> list[str]:
    """What rounding did to this alpha, when it did enough to matter."""
    effective = summary["effective_alpha"]
    if effective is None:
        return [f"alpha {alpha:g}: low and high hold the same weights"]
    notes = []
    if abs(effective - alpha) > 0.02 * max(1.0, abs(alpha)):
        notes.append(
            f"alpha {alpha:g}: rounding makes its effective alpha {effective:.4g}; "
            "use out_dtype float32 or wider inputs"
        )
    if alpha != 1 and summary["frac_equal_high"] - summary["frac_unchanged"] > 0.5:
        share = summary["frac_equal_high"]
        notes.append(
            f"alpha {alpha:g}: {share:.0%} of the weights equal high's; this is nearly the same model"
        )
    return notes


def _copy_side_files(source: Path, partial: Path) -> None:
    for path in sorted(source.iterdir()):
        if path.is_dir():
            if path.name == "additional_chat_templates":
                (partial / path.name).mkdir(exist_ok=True)
                for template in sorted(path.glob("*.jinja")):
                    _copy(template, partial / path.name / template.name)
                sync_directory(partial / path.name)
            continue
        hidden = path.name.startswith(".")
        if hidden or path.suffix in _WEIGHTS or path.name in _NOT_COPIED or path.name.endswith(".index.json"):
            continue
        _copy(path, partial / path.name)


def model_card(plan: Plan, record: dict[str, Any]) -> str:
    """README.md of one output: the recipe and what rounding left of it."""
    low, high, alpha = record["low"]["name"], record["high"]["name"], record["alpha"]
    where = "inside" if 0 <= alpha <= 1 else "outside"
    effective = record["effective_alpha"]
    after = "undefined, low equals high" if effective is None else f"{effective:.6g}"
    lines = [
        "---",
        "library_name: transformers",
        "tags: [merge, cef-env]",
        "---",
        f"# {low} and {high} at alpha {alpha:g}",
        "",
        f"theta = {alpha:g} * {high} + {1 - alpha:g} * {low}: a weighted average, {where} [0, 1], of two",
        "checkpoints (arXiv 2605.28751), made by cef-env without training.",
        "",
        "| | |",
        "|---|---|",
        f"| low | {low}, fingerprint `{record['low']['fingerprint'][:16]}` |",
        f"| high | {high}, fingerprint `{record['high']['fingerprint'][:16]}` |",
        f"| alpha | {alpha!r} |",
        f"| effective alpha after rounding | {after} |",
        f"| weights where low equals high | {record['frac_unchanged']:.2%} |",
        f"| weights equal to high's | {record['frac_equal_high']:.2%} |",
        "",
        "Config, tokenizer and chat template are those of high. `cef_merge.json` holds the full record.",
        *(f"\nWarning: {line}." for line in record["warnings"]),
    ]
    return "\n".join(lines) + "\n"


def write_json(path: Path, data: dict[str, Any]) -> None:
    write_text(path, json.dumps(data, indent=2, sort_keys=True, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    with path.open("wb") as stream:
        stream.write(text.encode())
        sync(stream)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer)
        sync(writer)


def sync(stream: BinaryIO | BufferedWriter) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
