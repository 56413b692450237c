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
        self._log_path = folder / "log.jsonl"
        self._model = model
        self._optimizer = optimizer
        self._rows: list[dict[str, Any]] = []
        self.step = 0
        if self._path.exists():
            try:
                saved = torch.load(self._path, weights_only=True)
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])
            except (RuntimeError, KeyError, ValueError, EOFError, UnpicklingError) as error:
                raise UserError(
                    f"{self._path} does not load; delete it to train again from the start"
                ) from error
            self.step = saved["step"]
            self._rows = json.loads(saved["log"])

    def log(self, row: dict[str, Any]) -> None:
        """Keeps one row of numbers; written with the next `save`."""
        self._rows.append(row)

    def save(self, step: int) -> None:
        """Everything needed to continue with `step`."""
        buffer = io.BytesIO()
        torch.save(
            {
                "model": self._model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "step": step,
                "log": json.dumps(self._rows),
            },
            buffer,
        )
        write_atomic(self._path, buffer.getvalue())

    def write_log(self) -> None:
        """Writes every row to `folder/log.jsonl`."""
        write_atomic(self._log_path, "".join(json.dumps(row) + "\n" for row in self._rows))

    def discard(self) -> None:
        """Drops the state of a run whose final checkpoint is written."""
        self._path.unlink(missing_ok=True)
