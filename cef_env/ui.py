"""What long work shows in a terminal: progress with time left, and one line per finished stage.

Everything goes to stderr, so that results on stdout can be piped.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Reporter:
    """Progress of named stages on one console."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    @contextmanager
    def bar(self, name: str, total: int) -> Iterator[Callable[[int, int, str], None]]:
        """A progress bar; the value is a function (done, total, note) that moves it."""
        columns = (
            TextColumn("[bold]{task.description:<8}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self.console, transient=self.console.is_terminal) as progress:
            task = progress.add_task(name, total=total, note="")

            def move(done: int, total: int, note: str) -> None:
                progress.update(task, completed=done, total=total, note=note)

            yield move

    @contextmanager
    def lazy_bar(self, name: str) -> Iterator[Callable[[int, int, str], None]]:
        """As `bar`, for work that is often over at once: shown from the first report after a second on."""
        started = time.monotonic()
        with ExitStack() as stack:
            bars: list[Callable[[int, int, str], None]] = []

            def move(done: int, total: int, note: str) -> None:
                if not bars and time.monotonic() - started > 1.0:
                    bars.append(stack.enter_context(self.bar(name, total)))
                for bar in bars:
                    bar(done, total, note)

            yield move

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, highlight=False)

    def done(self, name: str, seconds: float) -> None:
        """Says that a stage ended."""
        self.console.print(f"[bold]{name:<8}[/] done in {seconds:.0f} s", highlight=False)

    def skip(self, name: str) -> None:
        """Says that a stage had been done before."""
        self.console.print(f"[bold]{name:<8}[/] already done", highlight=False)
