"""Turns a directory of merged shards into a complete Hugging Face checkpoint, atomically.

Copies what is not a weight from the last source (config, generation config, licence) and the tokenizer
with its chat template from the side that the plan names; writes the index, a model card and
`cef_merge.json`, syncs everything and renames the directory.
"""

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cef_env.errors import UserError
from cef_env.files import sync_folder, write_json
from cef_env.merge.card import model_card, short_names
from cef_env.merge.checkpoint import INDEX, SINGLE, read_json
from cef_env.merge.compatibility import TOKENIZER
from cef_env.merge.planning import OUT_DTYPES, Output, Plan
from cef_env.merge.space import RECORD

if TYPE_CHECKING:
    from cef_env.merge.statistics import Report

_BEGUN = "begun.json"
"""In a partial directory only: the input files as they were when it was begun."""

_WEIGHTS = {
    ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".ckpt", ".tmp", ".lock",
}  # fmt: skip
_NOT_COPIED = {"README.md", RECORD, "trainer_state.json", "config.json"}
_TEMPLATES = "additional_chat_templates"


class BegunWithOtherInputsError(UserError):
    """An interrupted merge cannot be continued: its inputs are not what they were."""


def begin(plan: Plan, out: Path, partials: dict[Output, Path]) -> None:
    """Make the partial directories, and remove those of the same outputs that can never be completed.

    Raises `BegunWithOtherInputsError` when an input was written again since one of them was begun.
    """
    stamps = {f"{i}/{file}": list(v) for i, s in enumerate(plan.sources) for file, v in s.stamps.items()}
    for output, partial in partials.items():
        for path in sorted(out.glob(f"{output.name}.partial-*")):
            if (path / _BEGUN).is_file() and read_json(path / _BEGUN) != stamps:
                names = " or ".join(str(source.path) for source in plan.sources)
                raise BegunWithOtherInputsError(
                    f"{path}: was begun before {names} changed; remove it to merge what is there now"
                )
            if path != partial:
                shutil.rmtree(path)
        partial.mkdir(exist_ok=True)
        for path in partial.glob("*.tmp"):  # of a run that was killed
            path.unlink()
        write_json(partial / _BEGUN, stamps)


def finish(plan: Plan, output: Output, partial: Path, target: Path, report: "Report") -> None:
    """Complete `partial`, whose shards are all there, and rename it to `target`."""
    _copy_side_files(plan, partial)
    config = dict(plan.high.config)
    if plan.out_dtype is not None:
        name = next(long for long, short in OUT_DTYPES.items() if short == plan.out_dtype)
        config.update({key: name for key in ("dtype", "torch_dtype") if key in config})
    _write_text(partial / "config.json", json.dumps(config, indent=2, sort_keys=True) + "\n")
    if [file for file, _ in plan.shards] != [SINGLE]:
        weight_map = {name: file for file, names in plan.shards for name in names}
        index = {"metadata": {"total_size": plan.bytes_per_output}, "weight_map": weight_map}
        _write_text(partial / INDEX, json.dumps(index, indent=2) + "\n")
    names = short_names([source.path for source in plan.sources])
    record = {
        **({plan.axis: output.position} if output.position is not None else {}),
        "sources": [
            {"label": label, "name": name, "weight": weight, "fingerprint": source.fingerprint}
            for label, name, source, weight in zip(plan.labels, names, plan.sources, output.weights)
        ],
        **report.outputs[output.name],
        "warnings": [*plan.warnings, *report.outputs[output.name]["warnings"]],
        "statistics": report.sampled,
        "delta": report.delta,
        "recipe": plan.recipe(output),
    }  # fmt: skip
    _write_text(partial / "README.md", model_card(plan, output, record))
    _write_text(partial / RECORD, json.dumps(record, indent=2, allow_nan=False) + "\n")
    (partial / _BEGUN).unlink(missing_ok=True)
    sync_folder(partial)
    os.rename(partial, target)
    sync_folder(target.parent)


def _copy_side_files(plan: Plan, partial: Path) -> None:
    tokenizer = plan.low.path if plan.tokenizer_from == "low" else plan.high.path
    for path in sorted(plan.high.path.iterdir()):
        skipped = path.is_dir() or path.name.startswith(".") or path.suffix in _WEIGHTS
        if skipped or path.name in (*_NOT_COPIED, *TOKENIZER) or path.name.endswith(".index.json"):
            continue
        _copy(path, partial / path.name)
    for name in TOKENIZER:
        if (tokenizer / name).is_file():
            _copy(tokenizer / name, partial / name)
    if (tokenizer / _TEMPLATES).is_dir():
        (partial / _TEMPLATES).mkdir(exist_ok=True)
        for template in sorted((tokenizer / _TEMPLATES).glob("*.jinja")):
            _copy(template, partial / _TEMPLATES / template.name)
        sync_folder(partial / _TEMPLATES)


def _write_text(path: Path, text: str) -> None:
    """The file is whole only once its directory has been renamed, so it needs no renaming of its own."""
    with path.open("wb") as stream:
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer)
        writer.flush()
        os.fsync(writer.fileno())
