"""From the rewards of groups of answers to one advantage per answer.

group_norm   (r - mean) / std of the group              (GRPO)
dr_grpo      r - mean of the group                      (Dr. GRPO)
rloo         r - mean of the other answers of the group (RLOO)
"""

from collections.abc import Callable

import torch


def group_norm(rewards: torch.Tensor) -> torch.Tensor:
    """(r - mean) / std within each row of (groups, group_size); 0 where a group's rewards are all equal.

    The standard deviation is the population's (divides by group_size), as in GRPO.
    """
    centred = rewards - rewards.mean(1, keepdim=True)
    std = rewards.std(1, keepdim=True, correction=0)
    return torch.where(_equal(rewards), torch.zeros_like(centred), centred / std.clamp(min=1e-6))


def dr_grpo(rewards: torch.Tensor) -> torch.Tensor:
    """r - mean within each row of (groups, group_size); 0 where a group's rewards are all equal."""
    centred = rewards - rewards.mean(1, keepdim=True)
    return torch.where(_equal(rewards), torch.zeros_like(centred), centred)


def rloo(rewards: torch.Tensor) -> torch.Tensor:
    """r - mean of the others of its row of (groups, group_size); 0 where a group's rewards are all equal."""
    size = rewards.shape[1]
    return dr_grpo(rewards) * size / (size - 1)


def _equal(rewards: torch.Tensor) -> torch.Tensor:
    """(groups, 1): whether all rewards of the group are the same, rounding of their mean aside."""
    return rewards.amax(1, keepdim=True) == rewards.amin(1, keepdim=True)


ADVANTAGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "group_norm": group_norm,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
}
"""By the names of `RLConfig.advantage`."""
