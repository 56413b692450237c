"""Boxes that several threads share: started on demand, replaced when they die, ended together.

Knows nothing of problems and verdicts.
"""

import contextlib
import os
import threading
from collections.abc import Iterator

from cef_env.errors import UserError
from cef_env.sandbox.box import Box
from cef_env.sandbox.tiers import Plan
from cef_env.sandbox.types import Contents


class BoxPool:
    """At most `size` boxes with the same contents; `box()` lends one and waits while all are lent."""

    def __init__(self, plan: Plan, size: int, contents: Contents) -> None:
        self.plan = plan
        self.contents = contents
        self.size = size
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Box] = []
        self._closed = False
        self._owner = os.getpid()

    @contextlib.contextmanager
    def box(self, fresh: bool = False) -> Iterator[Box]:
        """Lend a box for a `with` block, newly started if `fresh`.

        A block that raises loses its box: its state is unknown.
        """
        self.check()
        with self._free:
            with self._lock:
                # Last in, first out: a lightly used pool keeps few boxes warm.
                box = self._idle.pop() if self._idle else None
            if box is not None and (fresh or not box.alive):
                box.close()
                box = None
            if box is None:
                box = Box(self.plan, self.contents)
            try:
                yield box
            except BaseException:
                box.close()
                raise
            with self._lock:
                keep = not self._closed
                if keep:
                    self._idle.append(box)
            if not keep:
                box.close()

    def check(self) -> None:
        """`UserError` after `close`, and in a forked child, which must not talk to its parent's boxes."""
        if self._closed:
            raise UserError("this Judge is closed; make a new one")
        if os.getpid() != self._owner:
            raise UserError("this Judge belongs to the parent process; make a new one after the fork")

    def close(self) -> None:
        """End all idle boxes; a lent one ends when it comes back."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for box in idle:
            box.close()
