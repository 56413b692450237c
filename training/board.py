"""Rows of numbers for TensorBoard, when that is asked for: a view. The record is JSONL (`state.py`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cef_env.errors import UserError


class Board:
    """A context manager that writes scalars to `folder`; None writes nothing.

    A resumed run drops what was written from `step` on, and writes it again.
    """

    def __init__(self, folder: Path | None, step: int) -> None:
        self._writer: Any = None
        if folder is None:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError(
                'tensorboard is not installed; pip install "cef-env[tensorboard]", or leave --tensorboard out'
            ) from error
        self._writer = SummaryWriter(str(folder), purge_step=step)

    def __enter__(self) -> "Board":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, step: int, row: Mapping[str, float | None], seconds: Mapping[str, float]) -> None:
        """Each number of the row, under `rl/`, and the seconds of each phase; what is None is left out."""
        if self._writer is None:
            return
        values = {f"rl/{name}": value for name, value in row.items() if name != "step"}
        values |= {f"seconds/{phase}": value for phase, value in seconds.items()}
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, step)
