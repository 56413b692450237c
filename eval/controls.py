"""Controls: what a step in weight space does when its direction means nothing.

A member at alpha outside [0, 1] is an endpoint displaced along high - low. Its control is the same endpoint
displaced as far in a random direction (cf. "Neural Thickets": random perturbations near pretrained weights
give diverse experts, too). "As far" is meant tensor by tensor: each tensor moves by the norm by which alpha
moves it. With one global norm a random direction would put most of its length into the largest tensors and
move tensors that training hardly touched, such as the gains of normalisation layers; the control would then
break for the sizes of its steps, not for their directions. Norms that agree per tensor agree globally.

    apply_random_direction(model, low, high, alpha=1.5, seed=0)
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cef_env.errors import UserError
from cef_env.merge import apply_alpha

if TYPE_CHECKING:
    import torch


def apply_random_direction(
    model: Any,
    low: "Mapping[str, torch.Tensor]",
    high: "Mapping[str, torch.Tensor]",
    alpha: float,
    seed: int,
) -> Any:
    """Write endpoint + |theta(alpha) - endpoint| * random unit direction into `model`, in place.

    The endpoint is high for alpha > 1 and low for alpha < 0. Directions are Gaussian, drawn in float32 on
    the CPU from (seed, alpha, name of the tensor), so the same arguments give the same weights on every
    device. Tied parameters stay tied. Returns the model. Raises `UserError` for alpha in [0, 1].
    """
    import torch

    if 0 <= alpha <= 1:
        raise UserError(
            f"alpha {alpha:g} is no extrapolation, so there is no displacement; use one outside [0, 1]"
        )
    end, beyond = (1.0, alpha - 1.0) if alpha > 1 else (0.0, -alpha)
    apply_alpha(model, low, high, end)
    written: set[int] = set()
    with torch.no_grad():
        for name, tensor in model.state_dict(keep_vars=True).items():
            if name not in low or id(tensor) in written or not tensor.is_floating_point():
                continue
            written.add(id(tensor))
            norm = beyond * float(torch.linalg.vector_norm(high[name].double() - low[name].double()))
            if norm == 0:
                continue
            key = hashlib.sha256(f"{seed}/{alpha!r}/{name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(key[:8], "big") >> 1)
            direction = torch.randn(tensor.shape, generator=generator)
            direction *= norm / torch.linalg.vector_norm(direction)
            tensor.copy_(tensor.float().add_(direction.to(tensor.device)))
    return model
