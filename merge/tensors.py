"""Merges torch tensors with the arithmetic of files: same bits, on the CPU, whatever device they live on."""

import numpy as np
import torch

from cef_env.merge import kernel

DTYPES = {
    "BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64,
    "I64": torch.int64, "I32": torch.int32, "BOOL": torch.bool,
}  # fmt: skip
"""safetensors name -> torch dtype."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def blend(low: torch.Tensor, high: torch.Tensor, alpha: float, dtype: torch.dtype) -> torch.Tensor:
    """alpha * high + (1 - alpha) * low in `dtype`, whether finite or not; one shape, on the CPU.

    At alpha 0 and 1 the result may share memory with `low` and `high`.
    """
    chunk = kernel.Chunk([_array(low), _array(high)], _NAMES[dtype])
    merged, _ = chunk.merge((1.0 - alpha, alpha))
    return torch.from_numpy(merged).view(dtype).view(low.shape)


def require_finite(values: torch.Tensor, what: str, remedy: str) -> None:
    """Raise a `UserError` unless every value is finite."""
    kernel.require_finite(_array(values), what, remedy)


def _array(values: torch.Tensor) -> np.ndarray:
    """All elements along one axis; bfloat16 as the uint16 of the same bits."""
    flat = values.detach().cpu().contiguous().view(-1)
    return (flat.view(torch.uint16) if flat.dtype == torch.bfloat16 else flat).numpy()
