"""A training run that can be killed at any moment: model, optimiser, step and log in one atomic file.

Does not hold random state: every step derives its randomness from (seed, step).
"""

import io
import json
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from cef_env.errors import UserError
from cef_env.files import write_atomic


class TrainState:
    """Loads `folder/state.pt` into model and optimiser if it exists.

    Attributes:
        step: the first step still to be done.
    """

    def __init__(self, folder: Path, model: Any, optimizer: Any) -> None:
        self._path = folder / "state.pt"
        self._folder = folder
        self._model = model
        self._optimizer = optimizer
        self._rows: list[dict[str, Any]] = []
        self._seconds: list[dict[str, Any]] = []
        self.step = 0
        if self._path.exists():
            try:
                saved = torch.load(self._path, map_location="cpu", weights_only=True)
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])
                self.step = saved["step"]
                self._rows, self._seconds = json.loads(saved["log"]), json.loads(saved["seconds"])
            except (RuntimeError, KeyError, ValueError, EOFError, UnpicklingError) as error:
                raise UserError(
                    f"{self._path} does not load; delete it to train again from the start"
                ) from error

    def log(self, row: dict[str, Any], seconds: dict[str, Any] | None = None) -> None:
        """Keeps one row of numbers, and how long what took; written with the next `save`.

        Times are kept apart: they are measurements, and a resumed run repeats all else exactly.
        """
        self._rows.append(row)
        if seconds is not None:
            self._seconds.append(seconds)

    def save(self, step: int) -> None:
        """Everything needed to continue with `step`."""
        buffer = io.BytesIO()
        torch.save(
            {
                "model": self._model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "step": step,
                "log": json.dumps(self._rows),
                "seconds": json.dumps(self._seconds),
            },
            buffer,
        )
        write_atomic(self._path, buffer.getvalue())
        self.write_log()

    def write_log(self) -> None:
        """Writes every row to `folder/log.jsonl`, and times, if there are any, to `folder/seconds.jsonl`."""
        for name, rows in (("log", self._rows), ("seconds", self._seconds)):
            if rows:
                text = "".join(json.dumps(row) + "\n" for row in rows)
                write_atomic(self._folder / f"{name}.jsonl", text)

    def discard(self) -> None:
        """Drops the state of a run whose final checkpoint is written."""
        self._path.unlink(missing_ok=True)
