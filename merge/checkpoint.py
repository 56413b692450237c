"""Reads what a safetensors checkpoint holds without reading its weights: names, dtypes, shapes, offsets.

A checkpoint is a Hugging Face directory with `model.safetensors`, or with `model.safetensors.index.json`
and the shards that it names. Everything is checked against the files on disk. Does *not* support pickled
weights (`.bin`, `.pt`), adapters, optimizer shards or quantised weights: each is refused by name.
Only the standard library is used, so that a plan can be made where torch is not installed.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cef_env.errors import UserError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

ITEM_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "I64": 8, "I32": 4, "BOOL": 1}
"""Bytes per element of the safetensors dtypes that can be merged or carried over."""
FLOATS = frozenset({"BF16", "F16", "F32", "F64"})

_MAX_HEADER = 100 << 20  # the limit of the safetensors format itself
_SAMPLED_BLOCKS = 16
_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where one tensor lies."""

    name: str
    dtype: str
    """safetensors name: BF16, F16, F32, ..."""
    shape: tuple[int, ...]
    file: str
    """Shard that holds it, relative to the checkpoint."""
    offset: int
    """First byte in the file."""
    nbytes: int

    @property
    def numel(self) -> int:
        return self.nbytes // ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint directory, checked, weights unread."""

    path: Path
    tensors: dict[str, TensorInfo]
    """By name, in the order of the files."""
    config: dict[str, Any]
    fingerprint: str
    """SHA-256 over names, dtypes, shapes and a fixed sample of the bytes of every tensor (all bytes of
    tensors up to 64 KiB). Independent of sharding, file times and location. It tells two training runs
    apart; it is not a proof against a deliberate edit."""
    stamps: dict[str, tuple[int, int]]
    """Bytes and modification time (ns) of every shard: what changes when a file is written again."""

    @property
    def files(self) -> list[str]:
        """Shard names in order."""
        return list(dict.fromkeys(info.file for info in self.tensors.values()))

    def in_file(self, file: str) -> list[TensorInfo]:
        return [info for info in self.tensors.values() if info.file == file]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; a `UserError` that names the file when it is not one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as JSON ({error}); save the checkpoint again") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: holds a {type(data).__name__}, not an object; save the checkpoint again")
    return data


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read and check the headers of the checkpoint at `path`.

    Raises `UserError`: no such directory, no safetensors weights, an adapter or optimizer directory, a
    missing or truncated shard, an index that disagrees with the shards, a dtype that cannot be merged.
    """
    path = Path(path)
    _refuse_other_things(path)
    config = read_json(path / "config.json")
    if "quantization_config" in config:
        raise UserError(f"{path}: is quantised (quantization_config); merge the unquantised checkpoints")
    index = read_json(path / INDEX) if (path / INDEX).exists() else None
    weight_map: dict[str, str] | None = None
    if index is not None:
        weight_map = index.get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise UserError(f"{path / INDEX}: has no weight_map; save the checkpoint again")
    files = sorted(set(weight_map.values())) if weight_map else [SINGLE]
    tensors: dict[str, TensorInfo] = {}
    for file in files:
        for info in _read_header(path, file):
            if info.name in tensors:
                raise UserError(f"{path}: tensor {info.name} is in both {tensors[info.name].file} and {file}")
            tensors[info.name] = info
    if weight_map is not None:
        _check_index(path, weight_map, tensors)
    if not tensors:
        raise UserError(f"{path}: holds no tensor; save the checkpoint again")
    return Checkpoint(path, tensors, config, _fingerprint(path, tensors), file_stamps(path, files))


def file_stamps(path: Path, files: list[str]) -> dict[str, tuple[int, int]]:
    """Size and modification time of shards; (0, 0) for one that is gone."""
    stamps = {}
    for file in files:
        try:
            status = (path / file).stat()
        except FileNotFoundError:
            stamps[file] = (0, 0)
        else:
            stamps[file] = (status.st_size, status.st_mtime_ns)
    return stamps


def _refuse_other_things(path: Path) -> None:
    if not path.is_dir():
        raise UserError(f"{path}: no such directory; give the directory of a Hugging Face checkpoint")
    if (path / "adapter_config.json").exists():
        raise UserError(
            f"{path}: is an adapter, not a model; give adapters only, or merge it into its base first "
            "(merge_and_unload)"
        )
    if (path / INDEX).exists() or (path / SINGLE).exists():
        if not (path / "config.json").exists():
            raise UserError(f"{path}: has weights but no config.json; copy the model's config.json there")
        return
    if (
        path.name.startswith("global_step")
        or any(path.glob("*_optim_states.pt"))
        or any(path.glob("global_step*"))
    ):
        raise UserError(
            f"{path}: holds optimizer shards; convert it with its zero_to_fp32.py and save_pretrained"
        )
    if any(path.glob("*.bin")) or any(path.glob("*.pt")) or any(path.glob("*.pth")):
        raise UserError(
            f"{path}: has pickled weights only; load and save_pretrained(safe_serialization=True)"
        )
    raise UserError(f"{path}: neither {SINGLE} nor {INDEX} is there; give a safetensors checkpoint directory")


def _read_header(path: Path, file: str) -> Iterator[TensorInfo]:
    full = path / file
    if Path(file).name != file:
        raise UserError(
            f"{path / INDEX}: shard name {file!r} leaves the directory; save the checkpoint again"
        )
    if not full.is_file():
        raise UserError(f"{path}: shard {file} is missing; download or save the checkpoint again")
    size = full.stat().st_size
    with full.open("rb") as stream:
        prefix = stream.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else -1
        if not 0 < length <= min(_MAX_HEADER, size - 8):
            raise UserError(
                f"{full}: is not a safetensors file or is truncated ({size} bytes); fetch it again"
            )
        try:
            header = json.loads(stream.read(length))
            header.pop("__metadata__", None)
            rows = [(n, h["dtype"], tuple(h["shape"]), *h["data_offsets"]) for n, h in header.items()]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{full}: the safetensors header is damaged ({error}); fetch it again") from None
    end = 8 + length + max((row[4] for row in rows), default=0)
    if end != size:
        raise UserError(
            f"{full}: header promises {end} bytes, the file has {size}; it is truncated, fetch it again"
        )
    for name, dtype, shape, begin, stop in sorted(rows, key=lambda row: row[3]):
        if dtype not in ITEM_BYTES:
            raise UserError(
                f"{full}: tensor {name} has dtype {dtype}, which cannot be merged; dequantise it first"
            )
        numel = 1
        for size_of_axis in shape:
            numel *= size_of_axis
        if stop - begin != numel * ITEM_BYTES[dtype]:
            raise UserError(
                f"{full}: tensor {name} {dtype}{list(shape)} has {stop - begin} bytes; fetch it again"
            )
        yield TensorInfo(name, dtype, shape, file, 8 + length + begin, stop - begin)


def _check_index(path: Path, weight_map: dict[str, str], tensors: dict[str, TensorInfo]) -> None:
    for name, file in weight_map.items():
        if name not in tensors:
            raise UserError(f"{path / INDEX}: tensor {name} is in no shard; save the checkpoint again")
        if tensors[name].file != file:
            found = tensors[name].file
            raise UserError(
                f"{path / INDEX}: puts {name} in {file}, it is in {found}; save the checkpoint again"
            )
    unlisted = [name for name in tensors if name not in weight_map]
    if unlisted:
        raise UserError(f"{path / INDEX}: does not list {unlisted[0]}; save the checkpoint again")


def _fingerprint(path: Path, tensors: dict[str, TensorInfo]) -> str:
    digest = hashlib.sha256(b"cef-merge-fingerprint-1")
    handles = {file: (path / file).open("rb") for file in {info.file for info in tensors.values()}}
    try:
        for name in sorted(tensors):
            info = tensors[name]
            digest.update(json.dumps([name, info.dtype, info.shape]).encode())
            stream = handles[info.file]
            if info.nbytes <= _SAMPLED_BLOCKS * _BLOCK:
                stream.seek(info.offset)
                digest.update(stream.read(info.nbytes))
                continue
            for block in range(_SAMPLED_BLOCKS):
                stream.seek(info.offset + block * (info.nbytes - _BLOCK) // (_SAMPLED_BLOCKS - 1))
                digest.update(stream.read(_BLOCK))
    finally:
        for stream in handles.values():
            stream.close()
    return digest.hexdigest()
