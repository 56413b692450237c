"""Merges LoRA adapters of one base model exactly, at any alpha, by putting their ranks side by side.

An adapter adds s * B A to a weight. For adapters high and low,

    alpha * s_h B_h A_h + (1 - alpha) * s_l B_l A_l = [alpha s_h B_h, (1 - alpha) s_l B_l] [A_h; A_l],

which is one adapter of rank r_h + r_l and scale 1: the average of the two full models, not of the factors
(averaging A and B apart is off by about the size of the update itself). The rank is filled up with zeros
to one that vLLM allows, so that one engine can serve many alphas as as many adapters.

Does *not* support DoRA, trained biases, `modules_to_save`, convolutions, or initialisations that change
the base weights (PiSSA, OLoRA, CorDA, LoftQ): each is refused by name.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cef_env.errors import UserError
from cef_env.files import folder_atomic
from cef_env.merge.card import short_names
from cef_env.merge.checkpoint import read_json
from cef_env.merge.planning import positions

if TYPE_CHECKING:
    import torch

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values of vLLM's `max_lora_rank`."""

_NAME = re.compile(r"(?P<module>.+)\.lora_(?:embedding_)?(?P<side>[AB])(?:\.weight)?")
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq")


@dataclass(frozen=True)
class Adapter:
    """One LoRA adapter directory, read and checked."""

    path: Path
    config: dict[str, Any]
    tensors: "dict[str, torch.Tensor]"
    fingerprint: str

    def module(self, name: str) -> "tuple[torch.Tensor, torch.Tensor, float] | None":
        """(A of shape (r, in), B of shape (out, r), scale) of tensor `name` without its A or B, or None."""
        if name.format("A") not in self.tensors:
            return None
        a, b = self.tensors[name.format("A")], self.tensors[name.format("B")]
        module = _NAME.fullmatch(name.format("A"))["module"]  # type: ignore[index]
        rank, alpha = (
            next((v for k, v in self.config.get(f"{which}_pattern", {}).items() if _fits(k, module)), default)
            for which, default in (("rank", self.config["r"]), ("alpha", self.config["lora_alpha"]))
        )
        if (a.shape[0], b.shape[1]) != (rank, rank):
            raise UserError(
                f"{self.path}: {module} has A {list(a.shape)} and B {list(b.shape)}, its config says rank "
                f"{rank}; save the adapter again"
            )
        return a, b, alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank)


def _fits(pattern: str, module: str) -> bool:
    """Whether a key of `rank_pattern` means the module, as PEFT matches them: a suffix or a regex."""
    return re.match(rf"(.*\.)?({pattern})$", module) is not None


def is_adapter(path: str | os.PathLike[str]) -> bool:
    return (Path(path) / CONFIG).is_file()


def open_adapter(path: str | os.PathLike[str]) -> Adapter:
    """Read the adapter at `path`; `UserError` for all but plain LoRA of linear and embedding layers."""
    from safetensors.torch import load_file

    from cef_env.merge.tensors import require_finite

    path = Path(path)
    if not is_adapter(path):
        raise UserError(f"{path}: has no {CONFIG}; give a LoRA adapter directory")
    config = read_json(path / CONFIG)
    if config.get("peft_type") != "LORA":
        raise UserError(f"{path}: peft_type is {config.get('peft_type')!r}; only LORA can be merged")
    initial = config.get("init_lora_weights")
    for bad, what in (
        (config.get("use_dora"), "use_dora"),
        (config.get("bias", "none") != "none", f"bias {config.get('bias')!r}"),
        (config.get("lora_bias"), "lora_bias"),
        (config.get("modules_to_save"), f"modules_to_save {config.get('modules_to_save')}"),
        (
            isinstance(initial, str) and initial.lower().startswith(_CHANGES_BASE),
            f"init_lora_weights {initial!r}",
        ),
    ):
        if bad:
            raise UserError(f"{path}: {what} is not supported; merge it into its base and merge the models")
    if not (path / WEIGHTS).is_file():
        raise UserError(f"{path}: {WEIGHTS} is missing; save the adapter with safe_serialization=True")
    try:
        tensors = load_file(path / WEIGHTS)
    except Exception as error:  # safetensors raises a class of its own for damaged files
        raise UserError(f"{path / WEIGHTS}: cannot be read ({error}); save the adapter again") from error
    digest = hashlib.sha256((path / WEIGHTS).read_bytes()).hexdigest()
    for name, value in tensors.items():
        match = _NAME.fullmatch(name)
        if match is None or value.ndim != 2:
            raise UserError(f"{path}: tensor {name} {list(value.shape)} is not the A or B of a linear layer")
        require_finite(value, f"{path}: {name}", "train that adapter again")
        other = "B" if match["side"] == "A" else "A"
        if _template(name).format(other) not in tensors:
            raise UserError(f"{path}: {name} has no partner {_template(name).format(other)}; save it again")
    if not tensors:
        raise UserError(f"{path}: holds no tensor; save the adapter again")
    return Adapter(path, config, tensors, digest)


def _template(name: str) -> str:
    return re.sub(r"(lora_(?:embedding_)?)[AB]", r"\1{}", name)


@dataclass(frozen=True)
class AdapterPlan:
    """What `merge_adapters` will write; made by `plan_adapters` only."""

    pair: tuple[Adapter, Adapter]
    """low, high"""
    alphas: tuple[float, ...]
    """Ascending."""
    names: tuple[str, ...]
    """One template per module, with a hole for A and B."""
    rank: int
    out_dtype: str
    targets: dict[float, Path]
    """Directory of each alpha."""
    finished: frozenset[float]
    """Alphas whose directory is there already, with the same recipe."""
    elements: int
    """Numbers in one output."""

    @property
    def bytes_per_output(self) -> int:
        return self.elements * (4 if self.out_dtype == "float32" else 2)


def plan_adapters(
    low: str | os.PathLike[str],
    high: str | os.PathLike[str],
    alphas: Iterable[float],
    out: str | os.PathLike[str],
    out_dtype: str = "float32",
) -> AdapterPlan:
    """Read and check two adapters and what is at `out`; write nothing. Arguments: `merge_adapters`."""
    steps = positions(alphas, "alpha")
    if not steps:
        raise UserError("no alpha was given; give at least one, such as 0.5")
    if out_dtype not in ("float32", "bfloat16", "float16"):
        raise UserError(f"out_dtype {out_dtype!r}: an adapter is written as float32, bfloat16 or float16")
    pair = open_adapter(low), open_adapter(high)
    names = tuple(sorted({_template(name) for adapter in pair for name in adapter.tensors}))
    rank = _common_rank(pair, names)
    targets = {alpha: Path(out) / f"alpha_{alpha:g}" for alpha in steps}
    finished = set()
    for alpha, target in targets.items():
        if any(target.resolve() == adapter.path.resolve() for adapter in pair):
            raise UserError(f"{target}: is an input of the merge; choose another output directory")
        if target.exists():
            record = target / "cef_merge.json"
            recipe = _recipe(pair, alpha, out_dtype, rank)
            if not record.is_file() or read_json(record).get("recipe") != recipe:
                raise UserError(f"{target}: exists and holds something else; choose another output directory")
            finished.add(alpha)
    elements = 0
    for name in names:
        a, b, _ = next(module for module in (adapter.module(name) for adapter in pair) if module is not None)
        elements += rank * (a.shape[1] + b.shape[0])
    return AdapterPlan(pair, tuple(steps), names, rank, out_dtype, targets, frozenset(finished), elements)


def _recipe(pair: tuple[Adapter, Adapter], alpha: float, out_dtype: str, rank: int) -> dict[str, Any]:
    """Everything that determines the files of one output."""
    return {
        "alpha": alpha, "out_dtype": out_dtype, "rank": rank,
        "fingerprints": [adapter.fingerprint for adapter in pair],
    }  # fmt: skip


def merge_adapters(
    low: str | os.PathLike[str],
    high: str | os.PathLike[str],
    alphas: Iterable[float],
    out: str | os.PathLike[str],
    out_dtype: str = "float32",
) -> list[Path]:
    """Write the adapter of every alpha to `out/alpha_{a:g}/`; return the directories, alphas ascending.

    A module that only one adapter has counts as zero in the other. All outputs have one rank: the
    smallest that vLLM allows and that holds both; none allowed is larger than 512. `out_dtype`: float32
    keeps the average exact to float32; engines convert to their own dtype. A directory that is there
    already is kept when it has the same recipe.
    """
    import torch

    made = plan_adapters(low, high, alphas, out, out_dtype)
    for alpha in made.alphas:
        if alpha in made.finished:
            continue
        tensors = {}
        for name in made.names:
            modules = [adapter.module(name) for adapter in made.pair]
            for side, value in zip("AB", concatenate(modules, [1 - alpha, alpha], made.rank)):
                value = value.to(getattr(torch, out_dtype)).contiguous()
                if not torch.isfinite(value).all():
                    raise UserError(
                        f"{name.format(side)} at alpha {alpha:g} overflows; use out_dtype float32"
                    )
                tensors[name.format(side)] = value
        recipe = _recipe(made.pair, alpha, out_dtype, made.rank)
        folder_atomic(
            made.targets[alpha],
            lambda folder: _write(folder, made.pair, tensors, made.rank, recipe),  # noqa: B023
        )
    return list(made.targets.values())


def _common_rank(pair: tuple[Adapter, Adapter], names: Iterable[str]) -> int:
    needed = 0
    for name in names:
        modules = [adapter.module(name) for adapter in pair]
        shapes = [(list(m[0].shape[1:]), list(m[1].shape[:1])) for m in modules if m is not None]
        if shapes[0] != shapes[-1]:
            raise UserError(
                f"{name.format('A')}: {shapes[0][0]} to {shapes[0][1]} in low, {shapes[-1][0]} to "
                f"{shapes[-1][1]} in high; merge adapters of one base model"
            )
        needed = max(needed, sum(m[0].shape[0] for m in modules if m is not None))
    rank = next((rank for rank in RANKS if rank >= needed), None)
    if rank is None:
        raise UserError(f"the ranks add up to {needed}, vLLM allows {RANKS[-1]}; merge the full models")
    return rank


def concatenate(
    modules: "list[tuple[torch.Tensor, torch.Tensor, float] | None]", weights: list[float], rank: int
) -> "tuple[torch.Tensor, torch.Tensor]":
    """A (rank, in) and B (out, rank), float64, with B A = sum_i weights[i] * scale_i * B_i A_i."""
    import torch

    held = [(module, weight) for module, weight in zip(modules, weights) if module is not None]
    a = torch.cat([m[0].double() for m, _ in held])
    b = torch.cat([m[1].double() * (m[2] * weight) for m, weight in held], dim=1)
    missing = rank - a.shape[0]
    return torch.nn.functional.pad(a, (0, 0, 0, missing)), torch.nn.functional.pad(b, (0, missing))


def _write(
    folder: Path,
    pair: tuple[Adapter, Adapter],
    tensors: "dict[str, torch.Tensor]",
    rank: int,
    recipe: dict[str, Any],
) -> None:
    from safetensors.torch import save_file

    targets = [adapter.config.get("target_modules") for adapter in pair]
    if all(isinstance(target, list) for target in targets):
        merged = sorted({name for target in targets for name in target or ()})
    else:  # regular expressions: name the modules that are there
        merged = sorted({_NAME.fullmatch(name)["module"].split(".")[-1] for name in tensors})  # type: ignore[index]
    config = {
        **pair[1].config, "r": rank, "lora_alpha": rank, "rank_pattern": {}, "alpha_pattern": {},
        "use_rslora": False, "target_modules": merged, "layers_to_transform": None, "layers_pattern": None,
        "lora_dropout": 0.0, "inference_mode": True, "init_lora_weights": True,
    }  # fmt: skip
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    mask = os.umask(0)
    os.umask(mask)
    (folder / WEIGHTS).chmod(0o666 & ~mask)  # safetensors gives its files to their owner alone
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    bases = [adapter.config.get("base_model_name_or_path") for adapter in pair]
    warnings = (
        [f"base_model_name_or_path is {bases[0]} in low and {bases[1]} in high"]
        if bases[0] != bases[1]
        else []
    )
    low, high = short_names([adapter.path for adapter in pair])
    record = {"alpha": recipe["alpha"], "low": low, "high": high,
              "warnings": warnings, "recipe": recipe}  # fmt: skip
    (folder / "cef_merge.json").write_text(json.dumps(record, indent=2) + "\n")
    (folder / "README.md").write_text(
        "---\nlibrary_name: peft\ntags: [lora, merge, cef-env]\n---\n"
        f"# {low} and {high} at alpha {recipe['alpha']:g}\n\n"
        f"LoRA adapter of rank {rank}: the exact weighted average {recipe['alpha']:g} * {high} + "
        f"{1 - recipe['alpha']:g} * {low} of two adapters\n"
        "(arXiv 2605.28751), made by cef-env without training.\n"
    )
