"""Writes the checkpoints of a plan: one pass over the inputs for all outputs, in bounded memory.

Each output is built in `NAME.partial-<plan hash>` and renamed when it is complete and on disk, so a
directory with its final name is always whole. A killed run continues shard by shard when it is called
again and writes the same bytes. Does *not* decide whether the merge makes sense: see `planning.py`.

    from cef_env import merge
    merge.run(merge.plan("low", "high", [-0.5, 0.5, 1.5]), "merged")
"""

import errno
import json
import os
import shutil
import struct
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cef_env.errors import UserError
from cef_env.files import exclusive, sync_folder
from cef_env.merge import publish
from cef_env.merge.checkpoint import FLOATS, ITEM_BYTES, Checkpoint, TensorInfo, file_stamps
from cef_env.merge.planning import Output, Plan
from cef_env.merge.space import check_output, is_complete

if TYPE_CHECKING:
    from cef_env.merge.reading import Reader
    from cef_env.merge.statistics import Report

CHUNK = 1 << 19
"""Elements per step, a multiple of the block of random numbers; working memory is a few dozen times this
many bytes for each thread, whatever the checkpoint."""

_SYNC_SECONDS = 0.02

_TIED = ("model.embed_tokens.weight", "lm_head.weight")

Progress = Callable[[int, int], None]


def run(
    plan: Plan,
    out: str | os.PathLike[str],
    progress: Progress | None = None,
    report: "Report | None" = None,
) -> list[Path]:
    """Write `out/NAME/` for every output of the plan; return the directories in the plan's order.

    Directories that are already complete are kept as they are. `progress(done, total)` is called with
    bytes of merged weights. Each output holds `cef_merge.json`: the recipe and the statistics of `report`,
    which is measured on a sample when it is not given; its warnings are then given as Python warnings.

    Raises `UserError`. Leaving no partial directory: an output that is an input or holds something else,
    too little disk, inputs that changed since `plan`, NaN or infinity in or out, integer tensors that
    differ, tied tensors that disagree, another process at work in `out`. Leaving what is finished, to
    continue from: inputs that changed since an interrupted run, a disk that became full.
    """
    out = Path(out)
    check_output(plan, out)
    _check_unchanged(plan, "since the plan was made; make the plan again")
    targets = {output: out / output.name for output in plan.outputs}
    todo = {o: target for o, target in targets.items() if not is_complete(target, plan, o)}
    if not todo:
        return list(targets.values())
    out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / ".merge.lock", f"{out}"):
        partials = {o: target.with_name(f"{target.name}.partial-{plan.hash}") for o, target in todo.items()}
        try:
            publish.begin(plan, out, partials)
            _check_ties(plan)
            unseen = report is None
            if report is None:
                from cef_env.merge.statistics import stats

                report = stats(plan)
            _merge_shards(plan, partials, progress)
            _check_unchanged(plan, "while merging; let it be finished, then merge again")
            for output, partial in partials.items():
                publish.finish(plan, output, partial, todo[output], report)
            for line in report.warnings if unseen else ():
                warnings.warn(line, stacklevel=2)
        except publish.BegunWithOtherInputsError:
            raise
        except UserError:
            for partial in partials.values():
                shutil.rmtree(partial, ignore_errors=True)
            raise
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            for partial in partials.values():
                for path in partial.glob("*.tmp"):
                    path.unlink()
            raise UserError(
                f"{out}: the disk is full; what is finished is kept, make room and run the same again"
            ) from error
    return list(targets.values())


def _check_unchanged(plan: Plan, when: str) -> None:
    for source in plan.sources:
        if file_stamps(source.path, source.files) != source.stamps:
            raise UserError(f"{source.path}: changed {when}")


def _check_ties(plan: Plan) -> None:
    """If the config ties the head but the file stores it too, both copies must agree or one is lost."""
    for source in plan.sources:
        pair = [source.tensors.get(name) for name in _TIED]
        if source.config.get("tie_word_embeddings") and all(pair):
            first, second = (_content(source, info) for info in pair if info is not None)
            if any(a != b for a, b in zip(first, second, strict=True)):
                raise UserError(
                    f"{source.path}: config ties {_TIED[0]} and {_TIED[1]}, but they differ; "
                    "set tie_word_embeddings to false in all inputs, or save the checkpoint again"
                )


def _content(source: Checkpoint, info: TensorInfo) -> Iterator[bytes]:
    with (source.path / info.file).open("rb") as stream:
        stream.seek(info.offset)
        for start in range(0, info.nbytes, CHUNK):
            yield stream.read(min(CHUNK, info.nbytes - start))


def _merge_shards(plan: Plan, partials: dict[Output, Path], progress: Progress | None) -> None:
    from cef_env.merge.reading import Reader

    total = plan.bytes_per_output * len(partials)
    done = 0
    with Reader(plan.sources) as reader:
        for file, names in plan.shards:
            infos = [plan.high.tensors[name] for name in names]
            pending = {o: partial for o, partial in partials.items() if not (partial / file).exists()}
            done += sum(map(plan.nbytes_out, infos)) * (len(partials) - len(pending))
            for step in _merge_shard(plan, reader, file, infos, pending) if pending else ():
                done += step
                if progress is not None:
                    progress(done, total)


def _merge_shard(
    plan: Plan, reader: "Reader", file: str, infos: Sequence[TensorInfo], partials: dict[Output, Path]
) -> Iterator[int]:
    """Write shard `file` of every output; yields bytes written, summed over outputs."""
    from cef_env.merge.reading import spread

    # Wide items first, so that every tensor starts at a multiple of its own item size.
    infos = sorted(infos, key=lambda info: -ITEM_BYTES[plan.dtype_out(info)])
    header = _header(plan, infos)
    tasks, offset = [], len(header)
    for info in infos:
        for start in range(0, info.numel, CHUNK):
            at = offset + start * ITEM_BYTES[plan.dtype_out(info)]
            tasks.append((info, start, min(CHUNK, info.numel - start), at))
        offset += plan.nbytes_out(info)
    with ExitStack() as stack:
        sinks: dict[Output, int] = {}
        for output, partial in partials.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            sinks[output] = sink = os.open(partial / f"{file}.tmp", flags, 0o666)
            stack.callback(os.close, sink)
            _write(sink, memoryview(header), 0)
        with _syncing(sinks.values()):
            yield from spread(lambda task: _merge_chunk(plan, reader, sinks, *task), tasks)
        list(spread(os.fsync, sinks.values()))
    for partial in partials.values():
        os.replace(partial / f"{file}.tmp", partial / file)
        sync_folder(partial)


@contextmanager
def _syncing(handles: Collection[int]) -> Iterator[None]:
    """Sends what is written to the disk in the background, so that the disk does not wait for the merge."""
    done = threading.Event()

    def sync() -> None:
        while not done.wait(_SYNC_SECONDS):
            for handle in handles:
                os.fdatasync(handle)

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(sync)
        try:
            yield
        finally:
            done.set()
        work.result()  # the kernel reports a failed write once, here or to the last fsync


def _merge_chunk(
    plan: Plan, reader: "Reader", sinks: dict[Output, int], info: TensorInfo, start: int, count: int, at: int
) -> int:
    from cef_env.merge.arithmetic import TOGETHER
    from cef_env.merge.kernel import Chunk

    name, dtype = info.name, plan.dtype_out(info)
    sources = reader.read(name, start, count)
    if info.dtype not in FLOATS:
        for label, source in zip(plan.labels, sources[:-1]):
            if not np.array_equal(source, sources[-1]):
                raise UserError(
                    f"{name}: {info.dtype} tensor differs between {label} and {plan.labels[-1]}; "
                    "it has no average, make it equal in all inputs"
                )
        for sink in sinks.values():
            _write(sink, sources[-1].view(np.uint8).data, at)
        return sources[-1].nbytes * len(sinks)
    chunk = Chunk(sources, dtype)
    labels = [str(source.path) for source in plan.sources]
    if not any(all(output.weights) for output in sinks):
        chunk.require_finite_sources(labels, name)
    outputs = list(sinks)
    for i in range(0, len(outputs), TOGETHER):
        group = outputs[i : i + TOGETHER]
        buffers = [reader.output(j, count, dtype) for j in range(len(group))]
        noises = [plan.noise(output, name, start) for output in group]
        results = chunk.merge_each([output.weights for output in group], buffers, noises)
        for output, (merged, finite) in zip(group, results):
            if not finite:
                chunk.require_finite_sources(labels, name)
                raise UserError(
                    f"{name} in {output.name} holds NaN or infinity; use out_dtype float32, "
                    "or weights nearer [0, 1]"
                )
            _write(sinks[output], merged.view(np.uint8).data, at)
    return count * ITEM_BYTES[dtype] * len(sinks)


def _write(handle: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(handle, data, offset)
        data, offset = data[written:], offset + written


def _header(plan: Plan, infos: Sequence[TensorInfo]) -> bytes:
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
