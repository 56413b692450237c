"""Whether checkpoints can be averaged at all: the same tensors, architecture, ties and tokenizer.

Works on headers and configs; reads no weights and does not need torch.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from cef_env.errors import UserError
from cef_env.merge.checkpoint import FLOATS, Checkpoint, read_json

# Config entries that change what the weights mean. Others (names, versions, dtype, cache) may differ.
_STRUCTURE = (
    "architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "tie_word_embeddings", "hidden_act",
    "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "sliding_window", "use_sliding_window",
    "layer_types", "attention_bias", "mlp_bias",
)  # fmt: skip

TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "tokenizer_config.json",
             "chat_template.jinja", "chat_template.json", "special_tokens_map.json",
             "added_tokens.json")  # fmt: skip
"""Files that belong to the tokenizer and its chat template."""


def check(labels: Sequence[str], sources: Sequence[Checkpoint], mixed: bool) -> None:
    """Raise a `UserError` unless every source can be averaged with the last; `mixed` allows dtypes to differ.

    `labels`: what each source is called in messages.
    """
    for label, source in list(zip(labels, sources))[:-1]:
        _check_tensors((label, labels[-1]), source, sources[-1], mixed)
        _check_configs((label, labels[-1]), source, sources[-1])


def _check_tensors(labels: tuple[str, str], low: Checkpoint, high: Checkpoint, mixed: bool) -> None:
    first, second = labels
    only_low = [name for name in low.tensors if name not in high.tensors]
    only_high = [name for name in high.tensors if name not in low.tensors]
    if only_low or only_high:
        hint = ""
        if any("lm_head" in name for name in only_low + only_high):
            hint = " (one of them stores a tied lm_head)"
        raise UserError(
            f"tensor names differ: only in {first} {only_low[:3]} ({len(only_low)} in all), only in {second} "
            f"{only_high[:3]} ({len(only_high)} in all){hint}; save both with the same code"
        )
    for name, mine in low.tensors.items():
        other = high.tensors[name]
        if mine.shape != other.shape:
            vocabulary = [checkpoint.config.get("vocab_size") for checkpoint in (low, high)]
            note = f" (vocab_size {vocabulary[0]} and {vocabulary[1]})" if len(set(vocabulary)) > 1 else ""
            raise UserError(
                f"{name}: shape {list(mine.shape)} in {first}, {list(other.shape)} in {second}{note}; "
                "merge checkpoints of one architecture and one vocabulary"
            )
        if mine.dtype != other.dtype and not (mixed and {mine.dtype, other.dtype} <= FLOATS):
            raise UserError(
                f"{name}: dtype {mine.dtype} in {first}, {other.dtype} in {second}; save both in the same "
                "dtype, or name the dtype to write (out_dtype float32)"
            )
    if not any(info.dtype in FLOATS for info in low.tensors.values()):
        raise UserError(f"{low.path}: holds no float tensor, so there is nothing to merge")


def _check_configs(labels: tuple[str, str], low: Checkpoint, high: Checkpoint) -> None:
    for key in _STRUCTURE:
        mine, other = low.config.get(key), high.config.get(key)
        if mine != other:
            raise UserError(
                f"config.json: {key} is {json.dumps(mine)} in {labels[0]} and {json.dumps(other)} in "
                f"{labels[1]}; merge checkpoints of one architecture, saved by one version of transformers"
            )


def tokenizer_warnings(labels: Sequence[str], paths: Sequence[Path], chosen: str) -> Iterable[str]:
    """One line for each tokenizer file in which a source differs from the last."""
    for label, path in list(zip(labels, paths))[:-1]:
        for name in TOKENIZER:
            mine, other = path / name, paths[-1] / name
            if mine.exists() != other.exists():
                where = label if mine.exists() else labels[-1]
                yield f"{name} is only in {where}; the outputs get what {chosen} has"
            elif mine.exists() and mine.read_bytes() != other.read_bytes():
                if name.endswith(".json") and read_json(mine) == read_json(other):
                    continue
                yield f"{name} differs between {label} and {labels[-1]}; the outputs get {chosen}'s"
