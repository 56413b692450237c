"""Memory that one thread uses again for every chunk: fresh pages cost more than the arithmetic."""

import torch


class Scratch:
    """Tensors by name; what they hold is overwritten by the next use of the name."""

    def __init__(self) -> None:
        self._held: dict[str, torch.Tensor] = {}

    def get(self, name: str, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A tensor of the shape and device of `like`, holding anything."""
        held = self._held.get(name)
        if held is None or held.numel() < like.numel() or (held.dtype, held.device) != (dtype, like.device):
            held = self._held[name] = torch.empty(like.numel(), dtype=dtype, device=like.device)
        return held[: like.numel()].view(like.shape)
