"""LoRA on the linear layers of a decoder: attach, train, merge into ordinary weights.

The merged checkpoint is complete and has the names of the one that it started from, so that weight averaging
and evaluation know nothing of it. Leaves embeddings, norms and the output layer alone.
"""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from cef_env.training.rl_config import LoRAConfig


class LoRALinear(nn.Module):
    """x -> W x + b + (alpha / rank) B A x, with W and b frozen, A random and B zero at the start."""

    def __init__(self, base: nn.Linear, config: LoRAConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.scale = config.alpha / config.rank
        bound = 1 / math.sqrt(base.in_features)
        start = torch.empty(config.rank, base.in_features).uniform_(-bound, bound, generator=generator)
        self.a = nn.Parameter(start.to(base.weight))  # (rank, in)
        self.b = nn.Parameter(base.weight.new_zeros(base.out_features, config.rank))  # (out, rank)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.scale * functional.linear(functional.linear(x, self.a), self.b)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The one layer that computes the same."""
        self.base.weight += self.scale * self.b @ self.a
        return self.base.requires_grad_(True)


def attach(model: Any, config: LoRAConfig, seed: int) -> None:
    """Freezes the model and puts a `LoRALinear` in the place of each linear layer of the decoder.

    A derives from the seed: runs that are to be averaged start from the same A.
    """
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parent, name, layer in _layers(model, nn.Linear):
        setattr(parent, name, LoRALinear(layer, config, generator))


def merge(model: Any) -> None:
    """Undoes `attach`, keeping what was learned; every weight is trainable again."""
    for parent, name, layer in _layers(model, LoRALinear):
        setattr(parent, name, layer.merged())
    model.requires_grad_(True)


def _layers(model: Any, kind: type[Any]) -> list[tuple[nn.Module, str, Any]]:
    """(parent, name, layer) of each layer of this kind in the decoder, in a fixed order."""
    return [
        (parent, name, layer)
        for parent in model.model.modules()
        if not isinstance(parent, LoRALinear)
        for name, layer in parent.named_children()
        if isinstance(layer, kind)
    ]
