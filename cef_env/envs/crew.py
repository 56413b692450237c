"""Threads for work that may never end: what is over its time is left behind, and others take its place.

A thread cannot be stopped from outside. So a call over its time keeps its thread, which is a daemon and does
not hold up the end of the process; when the call ends after all, its `late` function cleans up. Does not know
environments: see `vector.py` and `cef_env.agents.player`.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

LOOK_S = 0.05
"""How often a call with a limit is looked at that no thread has begun yet."""


@dataclass(eq=False, slots=True)
class Call:
    """Work that was given to a crew. `future.result()` is what it returned, or raises what it raised."""

    work: Callable[[], Any]
    timeout_s: float | None = None
    """Counted from when a thread begins it."""
    late: Callable[[], object] | None = None
    """Called by its thread when it ends after it was left behind."""
    future: Future[Any] = field(default_factory=Future)
    started: float | None = None
    took_s: float = 0.0
    left_behind: bool = False
    thread: threading.Thread | None = None

    def over_time(self, now: float) -> bool:
        return self.timeout_s is not None and self.started is not None and now > self.started + self.timeout_s


class Crew:
    """At most `size` threads at work, not counting those that were left behind.

    Threads start when there is work for them and end with `close`, or with the process.
    """

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self._name = name
        self._queue: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._running: set[Call] = set()
        self._unfinished = 0

    def submit(
        self,
        work: Callable[[], Any],
        timeout_s: float | None = None,
        late: Callable[[], object] | None = None,
    ) -> Call:
        """Have `work` done by a thread."""
        call = Call(work, timeout_s, late)
        with self._lock:
            self._unfinished += 1
        self._queue.put(call)
        self._grow()
        return call

    def next(self, calls: Iterable[Call]) -> tuple[list[Call], list[Call]]:
        """Those of `calls` that have ended and those that were left behind, once there is any of either."""
        calls = list(calls)
        while True:
            now = time.monotonic()
            ends = [call.started + call.timeout_s for call in calls if call.started and call.timeout_s]
            unbegun = any(call.started is None and call.timeout_s for call in calls)
            pause = max(0.0, min(ends) - now) if ends else None
            if unbegun:
                pause = LOOK_S if pause is None else min(pause, LOOK_S)
            wait([call.future for call in calls], pause, FIRST_COMPLETED)
            now = time.monotonic()
            late = [call for call in calls if call.over_time(now) and self._leave_behind(call)]
            ended = [call for call in calls if call.future.done()]
            if ended or late:
                return ended, late

    def all(self, calls: Iterable[Call]) -> set[Call]:
        """Waits until each of `calls` has ended or was left behind; returns the latter."""
        waiting, behind = set(calls), set()
        while waiting:
            ended, late = self.next(waiting)
            waiting.difference_update(ended, late)
            behind.update(late)
        return behind

    def close(self, wait: bool = True) -> None:
        """End the threads after all work; without `wait`, drop what has not begun, leave the rest behind."""
        if not wait:
            self._drop()
            for call in set(self._running):
                self._leave_behind(call)
        with self._lock:
            threads, self._threads = self._threads, set()
        for _ in threads:
            self._queue.put(None)
        for thread in threads if wait else ():
            thread.join()

    def _drop(self) -> None:
        """Cancel what no thread has begun."""
        with contextlib.suppress(queue.Empty):
            while (call := self._queue.get_nowait()) is not None:
                call.future.cancel()
                with self._lock:
                    self._unfinished -= 1

    def _grow(self) -> None:
        with self._lock:
            if len(self._threads) >= min(self.size, self._unfinished):
                return
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.add(thread)
        thread.start()

    def _leave_behind(self, call: Call) -> bool:
        """Whether `call` was still running; its thread no longer counts then."""
        with self._lock:
            if call.future.done():
                return False
            call.left_behind = True
            self._running.discard(call)
            self._unfinished -= 1
            if call.thread is not None:
                self._threads.discard(call.thread)
        self._grow()
        return True

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            with self._lock:
                call.thread, call.started = threading.current_thread(), time.monotonic()
                self._running.add(call)
            value, error = None, None
            try:
                value = call.work()
            except BaseException as caught:  # noqa: BLE001 - raised again where the result is asked for
                error = caught
            with self._lock:
                call.took_s = time.monotonic() - call.started
                if not call.left_behind:
                    self._running.discard(call)
                    self._unfinished -= 1
                    # Within the lock: either it has ended or it was left behind, never both.
                    call.future.set_exception(error) if error is not None else call.future.set_result(value)
                    continue
            if call.late is not None:
                call.late()
            return
