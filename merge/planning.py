"""Decides whether two checkpoints can be merged at the given alphas, before a byte is written.

`plan` compares names, shapes, dtypes, architecture and ties, and returns a frozen `Plan` that says what
will be written. What only a full read can show (NaN, infinity, unequal integer buffers) is refused by
`cef_env.merge.run` while it streams. Does not need torch.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.merge.checkpoint import FLOATS, ITEM_BYTES, Checkpoint, TensorInfo, open_checkpoint, read_json

FORMAT = 1
"""Raised whenever the arithmetic or the layout of the output changes, so that no old output passes as new."""

OUT_DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "float64": "F64"}

# Config entries that change what the weights mean. Others (names, versions, dtype, cache) may differ.
_STRUCTURE = (
    "architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "tie_word_embeddings", "hidden_act",
    "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "sliding_window", "use_sliding_window",
    "layer_types", "attention_bias", "mlp_bias",
)  # fmt: skip
_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "tokenizer_config.json",
              "chat_template.jinja", "special_tokens_map.json", "added_tokens.json")  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What `run` will write; made by `plan` only."""

    low: Checkpoint
    high: Checkpoint
    alphas: tuple[float, ...]
    """Ascending, finite, distinct also as `{a:g}`."""
    out_dtype: str | None
    """safetensors name of the dtype of every float tensor written; None keeps each tensor's own."""
    warnings: tuple[str, ...] = ()
    """What is unusual but allowed, one line each."""

    def dtype_out(self, info: TensorInfo) -> str:
        """Stored dtype of the merged tensor."""
        return self.out_dtype if self.out_dtype and info.dtype in FLOATS else info.dtype

    def nbytes_out(self, info: TensorInfo) -> int:
        return info.numel * ITEM_BYTES[self.dtype_out(info)]

    @property
    def bytes_per_alpha(self) -> int:
        """Bytes of weights in one output."""
        return sum(self.nbytes_out(info) for info in self.high.tensors.values())

    @property
    def bytes_total(self) -> int:
        """Bytes of weights in all outputs."""
        return self.bytes_per_alpha * len(self.alphas)

    def recipe(self, alpha: float) -> dict[str, Any]:
        """Everything that determines the weights at `alpha`: equal recipes give equal bytes."""
        return {
            "format": FORMAT,
            "alpha": alpha,
            "low_fingerprint": self.low.fingerprint,
            "high_fingerprint": self.high.fingerprint,
            "out_dtype": self.out_dtype,
        }

    @property
    def hash(self) -> str:
        """16 hex digits over every recipe and the shard layout; names the partial directories."""
        layout = [[info.name, info.file] for info in self.high.tensors.values()]
        text = json.dumps([[self.recipe(alpha) for alpha in self.alphas], layout], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def directory_name(alpha: float) -> str:
    """Name of the output of one alpha: `alpha_-0.5`, `alpha_1`."""
    return f"alpha_{alpha:g}"


def plan(
    low: str | os.PathLike[str],
    high: str | os.PathLike[str],
    alphas: Iterable[float],
    out_dtype: str | None = None,
) -> Plan:
    """Check that `low` and `high` can be merged at `alphas`; write nothing.

    `low`, `high`: Hugging Face directories with safetensors weights, single file or sharded.
    `alphas`: any finite numbers; 0 gives `low`, 1 gives `high`. `out_dtype`: None, or one of float32,
    bfloat16, float16, float64 for every float tensor of the outputs.

    Raises `UserError` with one line that names the tensor or file, both values and the remedy.
    """
    checked = _check_alphas(alphas)
    if out_dtype is not None and out_dtype not in OUT_DTYPES:
        raise UserError(f"out_dtype {out_dtype!r} is unknown; choose one of {', '.join(OUT_DTYPES)}")
    low_checkpoint, high_checkpoint = open_checkpoint(low), open_checkpoint(high)
    _check_tensors(low_checkpoint, high_checkpoint)
    _check_configs(low_checkpoint, high_checkpoint)
    warnings = list(_tokenizer_warnings(low_checkpoint.path, high_checkpoint.path))
    if low_checkpoint.fingerprint == high_checkpoint.fingerprint:
        warnings.append("low and high have the same fingerprint: every alpha will give the same weights")
    dtype = None if out_dtype is None else OUT_DTYPES[out_dtype]
    return Plan(low_checkpoint, high_checkpoint, checked, dtype, tuple(warnings))


def _check_alphas(alphas: Iterable[float]) -> tuple[float, ...]:
    values = [float(alpha) + 0.0 for alpha in alphas]  # + 0.0 turns -0.0 into 0.0
    if not values:
        raise UserError("no alpha was given; give at least one, such as 0.5")
    for value in values:
        if not math.isfinite(value):
            raise UserError(f"alpha {value} is not finite; give finite numbers")
    seen: dict[str, float] = {}
    for value in values:
        name = directory_name(value)
        if name in seen:
            raise UserError(f"alphas {seen[name]!r} and {value!r} would both be written to {name}; drop one")
        seen[name] = value
    return tuple(sorted(values))


def _check_tensors(low: Checkpoint, high: Checkpoint) -> None:
    only_low = [name for name in low.tensors if name not in high.tensors]
    only_high = [name for name in high.tensors if name not in low.tensors]
    if only_low or only_high:
        hint = ""
        if any("lm_head" in name for name in only_low + only_high):
            hint = " (one of them stores a tied lm_head)"
        raise UserError(
            f"tensor names differ: only in low {only_low[:3]} ({len(only_low)} in all), only in high "
            f"{only_high[:3]} ({len(only_high)} in all){hint}; save both with the same code"
        )
    for name, mine in low.tensors.items():
        other = high.tensors[name]
        if mine.shape != other.shape:
            raise UserError(
                f"{name}: shape {list(mine.shape)} in low, {list(other.shape)} in high; "
                "merge checkpoints of one architecture and one vocabulary"
            )
        if mine.dtype != other.dtype:
            raise UserError(
                f"{name}: dtype {mine.dtype} in low, {other.dtype} in high; save both in the same dtype"
            )
    if not any(info.dtype in FLOATS for info in low.tensors.values()):
        raise UserError(f"{low.path}: holds no float tensor, so there is nothing to merge")


def _check_configs(low: Checkpoint, high: Checkpoint) -> None:
    for key in _STRUCTURE:
        mine, other = low.config.get(key), high.config.get(key)
        if mine != other:
            raise UserError(
                f"config.json: {key} is {json.dumps(mine)} in low and {json.dumps(other)} in high; "
                "merge checkpoints of one architecture, saved by the same version of transformers"
            )


def _tokenizer_warnings(low: Path, high: Path) -> Iterable[str]:
    for name in _TOKENIZER:
        mine, other = low / name, high / name
        if mine.exists() != other.exists():
            yield f"{name} is only in {'low' if mine.exists() else 'high'}; the outputs get what high has"
        elif mine.exists() and mine.read_bytes() != other.read_bytes():
            if name.endswith(".json") and read_json(mine) == read_json(other):
                continue
            yield f"{name} differs between low and high; the outputs get high's"
