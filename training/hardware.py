"""Where and in which arithmetic training runs, chosen by rule: CUDA when there is one, else the CPU.

One device, one process. Weights and optimiser state are float32 everywhere.
"""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from cef_env.errors import UserError


@dataclass(frozen=True)
class Hardware:
    """A device and the arithmetic on it."""

    device: torch.device
    bfloat16: bool
    """Forward passes under bfloat16 autocast."""

    @classmethod
    def choose(cls, precision: str) -> "Hardware":
        """`precision` as in `Config.precision`; `UserError` when the device cannot do what it names."""
        if not torch.cuda.is_available():
            return cls(torch.device("cpu"), precision == "bfloat16")
        able = torch.cuda.is_bf16_supported()
        if precision == "bfloat16" and not able:
            raise UserError("precision bfloat16: this GPU has none; use auto or float32")
        return cls(torch.device("cuda"), able and precision != "float32")

    def autocast(self) -> AbstractContextManager[Any]:
        """Around one forward pass, or one rollout; never around an optimiser step, whose new weights
        autocast would not see."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)


def make_repeatable() -> None:
    """Equal runs give equal weights: always on the CPU, on CUDA as far as its kernels do."""
    torch.set_num_threads(1)  # the judge needs the other cores, and tiny matrices gain nothing
    cuda = torch.cuda.is_available()
    if cuda:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
    torch.use_deterministic_algorithms(True, warn_only=cuda)
