"""Reads elements of tensors into memory that is used again, and shares the work among threads."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from cef_env.errors import UserError
from cef_env.merge.checkpoint import ITEM_BYTES, Checkpoint
from cef_env.merge.kernel import STORED

MAX_THREADS = 8

Task = TypeVar("Task")
Result = TypeVar("Result")


class Reader:
    """Open files of checkpoints; threads may read at the same time."""

    def __init__(self, sources: Iterable[Checkpoint]) -> None:
        self._sources = tuple(sources)
        self._handles: dict[tuple[int, str], int] = {}
        self._local = threading.local()

    def __enter__(self) -> "Reader":
        for i, source in enumerate(self._sources):
            for file in source.files:
                self._handles[i, file] = os.open(source.path / file, os.O_RDONLY)
        return self

    def __exit__(self, *error: object) -> None:
        while self._handles:
            os.close(self._handles.popitem()[1])

    def read(self, name: str, start: int, count: int) -> list[np.ndarray]:
        """Elements `start` to `start + count` of tensor `name` of every source, one axis.

        They are overwritten when this thread reads again.
        """
        read = []
        for i, source in enumerate(self._sources):
            info = source.tensors[name]
            size = ITEM_BYTES[info.dtype]
            view = self._buffer(i, count * size)
            filled = 0
            while filled < len(view):
                offset = info.offset + start * size + filled
                got = os.preadv(self._handles[i, info.file], [view[filled:]], offset)
                if not got:
                    raise UserError(
                        f"{source.path / info.file}: ends inside {name}; it changed while merging"
                    )
                filled += got
            read.append(np.frombuffer(view, STORED[info.dtype]))
        return read

    def output(self, i: int, count: int, dtype: str) -> np.ndarray:
        """`count` elements for result `i`, of a safetensors dtype; again the same memory for each thread."""
        return np.frombuffer(self._buffer(-1 - i, count * ITEM_BYTES[dtype]), STORED[dtype])

    def _buffer(self, i: int, nbytes: int) -> memoryview:
        """Fresh pages would cost more than the arithmetic."""
        buffers = self._local.__dict__.setdefault("buffers", {})
        held = buffers.get(i)
        if held is None or len(held) < nbytes:
            held = buffers[i] = bytearray(nbytes)
        return memoryview(held)[:nbytes]


def spread(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """`work(task)` for every task, in order, on as many threads as there are processors.

    The first error ends the rest.
    """
    pool = ThreadPoolExecutor(min(MAX_THREADS, len(os.sched_getaffinity(0))))
    try:
        yield from pool.map(work, tasks)
    finally:
        pool.shutdown(cancel_futures=True)
