"""Writes the checkpoints of a plan: one pass over the inputs for all alphas, in bounded memory.

Each output is built in `alpha_X.partial-<plan hash>` and renamed when it is complete and on disk, so a
directory with its final name is always whole. A killed run continues shard by shard when it is called
again and writes the same bytes. Does *not* decide whether the merge makes sense: see `planning.py`.

    from cef_env import merge
    merge.run(merge.plan("low", "high", [-0.5, 0.5, 1.5]), "merged")
"""

import fcntl
import json
import os
import shutil
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from cef_env.errors import UserError
from cef_env.merge import publish
from cef_env.merge.checkpoint import FLOATS, ITEM_BYTES, Checkpoint, TensorInfo, open_checkpoint
from cef_env.merge.planning import Plan, directory_name

CHUNK = 1 << 18
"""Elements per step; working memory is a few dozen times this many bytes, whatever the checkpoint."""

_MARGIN = 64 << 20  # room left for tokenizers, headers and the file system's own records
_TIED = ("model.embed_tokens.weight", "lm_head.weight")

Progress = Callable[[int, int], None]


def run(plan: Plan, out: str | os.PathLike[str], progress: Progress | None = None) -> list[Path]:
    """Write `out/alpha_{a:g}/` for every alpha of the plan; return the directories, alphas ascending.

    Directories that are already complete are kept as they are. `progress(done, total)` is called with
    bytes of merged weights. Each output holds `cef_merge.json`: the recipe, the effective alpha
    <merged - low, high - low> / ||high - low||^2, and the shares of elements that did not move.

    Raises `UserError`, leaving no partial directory: an output that is an input or holds something else,
    too little disk, inputs that changed since `plan`, NaN or infinity in or out, integer tensors that
    differ, tied tensors that disagree, another process at work in `out`.
    """
    out = Path(out)
    targets = {alpha: out / directory_name(alpha) for alpha in plan.alphas}
    for source in (plan.low, plan.high):
        for path in (out, *targets.values()):
            if path.resolve() == source.path.resolve():
                raise UserError(f"{path}: is an input of the merge; choose another output directory")
        if open_checkpoint(source.path).fingerprint != source.fingerprint:
            raise UserError(f"{source.path}: changed since the plan was made; make the plan again")
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; choose another output directory")
    todo = {a: target for a, target in targets.items() if not publish.is_complete(target, plan.recipe(a))}
    if not todo:
        return list(targets.values())
    out.mkdir(parents=True, exist_ok=True)
    with _locked(out):
        partials = {a: target.with_name(f"{target.name}.partial-{plan.hash}") for a, target in todo.items()}
        _clear_stale(out, todo, partials)
        _check_disk(plan, out, partials)
        for partial in partials.values():
            partial.mkdir(exist_ok=True)
        try:
            _check_ties(plan)
            _merge_shards(plan, partials, progress)
        except UserError:
            for partial in partials.values():
                shutil.rmtree(partial)
            raise
        for alpha, partial in partials.items():
            for line in publish.finish(plan, alpha, partial, todo[alpha]):
                warnings.warn(line, stacklevel=2)
    return list(targets.values())


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    path = out / ".merge.lock"
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{out}: another merge is writing here; wait for it or choose another directory"
            ) from None
        yield


def _clear_stale(out: Path, todo: dict[float, Path], partials: dict[float, Path]) -> None:
    """Remove partial directories of the same alphas that another plan left; they can never be completed."""
    for target in todo.values():
        for path in out.glob(f"{target.name}.partial-*"):
            if path not in partials.values():
                shutil.rmtree(path)


def _check_disk(plan: Plan, out: Path, partials: dict[float, Path]) -> None:
    held = sum(f.stat().st_size for p in partials.values() if p.exists() for f in p.iterdir())
    needed = plan.bytes_per_alpha * len(partials) + _MARGIN - held
    free = shutil.disk_usage(out).free
    if needed > free:
        raise UserError(
            f"{out}: {len(partials)} outputs need {needed / 1e9:.2f} GB, the disk has {free / 1e9:.2f} GB; "
            "free some, give fewer alphas, or use apply_alpha, which needs no disk"
        )


def _check_ties(plan: Plan) -> None:
    """If the config ties the head but the file stores it too, both copies must agree or one is lost."""
    first, second = _TIED
    for source in (plan.low, plan.high):
        if source.config.get("tie_word_embeddings") and first in source.tensors and second in source.tensors:
            pairs = zip(_chunks(source, source.tensors[first]), _chunks(source, source.tensors[second]))
            if any(a != b for a, b in pairs):
                raise UserError(
                    f"{source.path}: config ties {first} and {second}, but they differ; "
                    "set tie_word_embeddings to false in both inputs, or save the checkpoint again"
                )


def _merge_shards(plan: Plan, partials: dict[float, Path], progress: Progress | None) -> None:
    import torch

    total = plan.bytes_per_alpha * len(partials)
    done = 0
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # chunks this small lose several times their cost to thread start-up
    try:
        for file in plan.high.files:
            size = sum(plan.nbytes_out(info) for info in plan.high.in_file(file))
            pending = {a: partial for a, partial in partials.items() if not (partial / file).exists()}
            done += size * (len(partials) - len(pending))
            for step in _merge_shard(plan, file, pending) if pending else ():
                done += step
                if progress is not None:
                    progress(done, total)
    finally:
        torch.set_num_threads(threads)


def _merge_shard(plan: Plan, file: str, partials: dict[float, Path]) -> Iterator[int]:
    """Write shard `file` of every alpha; yields bytes written, summed over alphas."""
    import torch

    from cef_env.merge.kernel import DTYPES, Difference, Stats, blend, require_finite

    # Wide items first, so that every tensor starts at a multiple of its own item size.
    infos = sorted(plan.high.in_file(file), key=lambda info: -ITEM_BYTES[plan.dtype_out(info)])
    header = _header(plan, infos)
    stats = {alpha: Stats() for alpha in partials}
    with ExitStack() as stack:
        sinks: dict[float, BinaryIO] = {
            alpha: stack.enter_context((partial / f"{file}.tmp").open("wb"))
            for alpha, partial in partials.items()
        }
        for sink in sinks.values():
            sink.write(header)
        for info in infos:
            name, dtype = info.name, DTYPES[info.dtype]
            pairs = zip(_chunks(plan.low, plan.low.tensors[name]), _chunks(plan.high, info))
            for low_bytes, high_bytes in pairs:
                if info.dtype not in FLOATS:
                    if low_bytes != high_bytes:
                        raise UserError(
                            f"{name}: {info.dtype} tensor differs between low and high; it has no average"
                        )
                    for sink in sinks.values():
                        sink.write(high_bytes)
                    yield len(high_bytes) * len(sinks)
                    continue
                low = torch.frombuffer(low_bytes, dtype=dtype)
                high = torch.frombuffer(high_bytes, dtype=dtype)
                require_finite(low, f"{plan.low.path}: {name}", "that checkpoint cannot be merged")
                require_finite(high, f"{plan.high.path}: {name}", "that checkpoint cannot be merged")
                difference = Difference(low, high)
                for alpha, sink in sinks.items():
                    merged = blend(low, high, alpha, DTYPES[plan.dtype_out(info)])
                    require_finite(
                        merged,
                        f"{name} at alpha {alpha:g}",
                        "use out_dtype float32, or an alpha nearer [0, 1]",
                    )
                    stats[alpha].add(difference, merged)
                    sink.write(merged.view(torch.uint8).numpy().data)
                yield low.numel() * ITEM_BYTES[plan.dtype_out(info)] * len(sinks)
        for sink in sinks.values():
            publish.sync(sink)
    for alpha, partial in partials.items():
        # The statistics go first: a shard with its final name always has them.
        publish.write_json(partial / f"{file}{publish.STATS}", asdict(stats[alpha]))
        (partial / f"{file}.tmp").rename(partial / file)
        publish.sync_directory(partial)


def _header(plan: Plan, infos: list[TensorInfo]) -> bytes:
    """Length and JSON header of an output shard (safetensors format), padded to a multiple of 8 bytes."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for info in infos:
        end = offset + plan.nbytes_out(info)
        entries[info.name] = {
            "dtype": plan.dtype_out(info), "shape": list(info.shape), "data_offsets": [offset, end]
        }  # fmt: skip
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _chunks(source: Checkpoint, info: TensorInfo) -> Iterator[bytearray]:
    """The bytes of one tensor, `CHUNK` elements at a time."""
    step = CHUNK * ITEM_BYTES[info.dtype]
    with (source.path / info.file).open("rb", buffering=0) as stream:
        stream.seek(info.offset)
        left = info.nbytes
        while left:
            buffer = bytearray(min(step, left))
            view, filled = memoryview(buffer), 0
            while filled < len(buffer):
                count = stream.readinto(view[filled:])
                if not count:
                    raise UserError(
                        f"{source.path / info.file}: ends inside {info.name}; it changed while merging"
                    )
                filled += count
            left -= filled
            yield buffer
