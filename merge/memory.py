"""Merges straight into a model in memory: no disk, no second model.

`apply_alpha` writes theta(alpha) into the parameters of any `torch.nn.Module`, one tensor at a time, so a
sweep over alpha needs one model and two sources (state dicts, or checkpoint paths read tensor by tensor).
Does *not* reset caches of an inference engine: whoever holds one must do that after each call.
"""

import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from cef_env.errors import UserError
from cef_env.merge.checkpoint import open_checkpoint

if TYPE_CHECKING:
    import torch

_STEP = 1 << 20
"""Elements that are merged at once, so that working memory does not grow with the largest tensor."""

Source = Mapping[str, "torch.Tensor"] | str | os.PathLike[str]
Model = TypeVar("Model", bound="torch.nn.Module")


def load_state_dict(path: str | os.PathLike[str]) -> "dict[str, torch.Tensor]":
    """All tensors of a safetensors checkpoint directory, on the CPU, in their stored dtype."""
    from safetensors.torch import load_file

    checkpoint = open_checkpoint(path)
    loaded: dict[str, torch.Tensor] = {}
    for file in checkpoint.files:
        loaded.update(load_file(checkpoint.path / file))
    return loaded


def apply_alpha(model: Model, low: Source, high: Source, alpha: float) -> Model:
    """Write alpha * high + (1 - alpha) * low into `model`, in place, and return it.

    `low`, `high`: state dicts or checkpoint directories with equal names, shapes and dtypes; tensors on
    any device. Each result is cast to the dtype of the model's tensor. Tied parameters stay tied: one
    name of a tie is enough, and if both sources carry several names of one tie these must agree.
    Everything is checked before the first write, except that a result is finite.

    Raises `UserError` for names, shapes or dtypes that do not match, a non-finite alpha, and a NaN or
    infinity in a result (the tensors before it are then already written: apply another alpha or reload).
    """
    import torch

    from cef_env.merge.reading import spread

    if not math.isfinite(alpha):
        raise UserError(f"alpha {alpha} is not finite; give a finite number")
    low_shapes, low_get = _open(low, "low")
    high_shapes, high_get = _open(high, "high")
    storages = _storages(model)
    targets = _match(storages, low_shapes, high_shapes)
    for label, get in (("low", low_get), ("high", high_get)):
        for target, names in targets.items():
            _check_source(storages[target][0], names, get, label)
    with torch.no_grad():
        for target, (name, *_) in targets.items():
            parameter = storages[target][0]
            left, right = low_get(name), high_get(name)
            if not left.is_floating_point():
                if not torch.equal(left, right):
                    raise UserError(
                        f"{name}: {left.dtype} tensor differs between low and high; it cannot be merged"
                    )
                parameter.copy_(left)
                continue
            flat = (
                parameter.detach().view(-1)  # gradients are off in this thread only
                if parameter.is_contiguous()
                else torch.empty_like(parameter, memory_format=torch.contiguous_format).view(-1)
            )
            fill = partial(_fill, flat, left.reshape(-1), right.reshape(-1), float(alpha), name)
            list(spread(fill, range(0, flat.numel(), _STEP)))
            if not parameter.is_contiguous():
                parameter.copy_(flat.view(parameter.shape))
    return model


def _fill(
    flat: "torch.Tensor", low: "torch.Tensor", high: "torch.Tensor", alpha: float, name: str, start: int
) -> None:
    """Merge `_STEP` elements of one tensor."""
    from cef_env.merge.tensors import blend, require_finite

    part = slice(start, start + _STEP)
    merged = blend(low[part], high[part], alpha, flat.dtype)
    remedy = f"check low and high, or hold the model in a wider dtype than {flat.dtype}"
    require_finite(merged, f"{name} at alpha {alpha:g}", remedy)
    flat[part] = merged


def _check_source(
    parameter: "torch.Tensor", names: list[str], get: "Callable[[str], torch.Tensor]", label: str
) -> None:
    """A source must not be the model's own memory, and its copies of one tied tensor must agree."""
    import torch

    first = get(names[0])
    if first.numel() and first.data_ptr() == parameter.data_ptr():
        raise UserError(f"{label}: {names[0]} is the model's own memory; pass a copy (clone each tensor)")
    for name in names[1:]:
        other = get(name)
        if other.data_ptr() != first.data_ptr() and not torch.equal(first, other):
            raise UserError(f"{label}: tied tensors {names[0]} and {name} differ; save the checkpoint again")


Shapes = dict[str, tuple[tuple[int, ...], str]]


def _open(source: Source, label: str) -> "tuple[Shapes, Callable[[str], torch.Tensor]]":
    """Shapes and dtypes by name, and a function that returns one tensor."""
    if isinstance(source, Mapping):
        shapes = {name: (tuple(value.shape), str(value.dtype)) for name, value in source.items()}
        tensors = source  # the narrowed type does not survive into a closure
        return shapes, lambda name: tensors[name]
    from safetensors import safe_open

    from cef_env.merge.tensors import DTYPES

    checkpoint = open_checkpoint(source)
    handles = {file: safe_open(checkpoint.path / file, framework="pt") for file in checkpoint.files}

    def get(name: str) -> "torch.Tensor":
        return handles[checkpoint.tensors[name].file].get_tensor(name)

    shapes = {name: (info.shape, str(DTYPES[info.dtype])) for name, info in checkpoint.tensors.items()}
    return shapes, get


def _storages(model: "torch.nn.Module") -> "dict[str, tuple[torch.Tensor, list[str]]]":
    """Each distinct parameter or persistent buffer once, with every name it goes by."""
    state = model.state_dict(keep_vars=True)
    found: dict[int, tuple[torch.Tensor, list[str]]] = {}
    for name, tensor in state.items():
        found.setdefault(id(tensor), (tensor, []))[1].append(name)
    return {names[0]: (tensor, names) for tensor, names in found.values()}


def _match(
    storages: "dict[str, tuple[torch.Tensor, list[str]]]", low: Shapes, high: Shapes
) -> dict[str, list[str]]:
    """Source names of every tensor of the model; raises unless the three agree completely."""
    only_low, only_high = sorted(low.keys() - high.keys()), sorted(high.keys() - low.keys())
    if only_low or only_high:
        raise UserError(f"tensor names differ: only in low {only_low[:3]}, only in high {only_high[:3]}")
    for name, (shape, dtype) in low.items():
        if high[name] != (shape, dtype):
            raise UserError(
                f"{name}: {dtype}{list(shape)} in low, {high[name][1]}{list(high[name][0])} in high; "
                "merge checkpoints of one architecture, saved in one dtype"
            )
    targets: dict[str, list[str]] = {}
    known: set[str] = set()
    for target, (tensor, names) in storages.items():
        sources = [name for name in names if name in low]
        if not sources:
            raise UserError(
                f"{target}: is in the model but not in low and high; they are of another architecture"
            )
        for name in sources:
            if low[name][0] != tuple(tensor.shape):
                raise UserError(
                    f"{name}: shape {list(low[name][0])} in low, {list(tensor.shape)} in the model"
                )
        targets[target] = sources
        known.update(sources)
    extra = sorted(low.keys() - known)
    if extra:
        raise UserError(f"{extra[0]}: is in low and high but not in the model ({len(extra)} such tensors)")
    return targets
