"""Weight averaging inside and outside [0, 1]: theta(alpha) = alpha * high + (1 - alpha) * low.

`plan` checks two checkpoints and a list of alphas without writing a byte (`plan_sum`, `plan_path`: more
than two); `stats` measures what rounding will leave of each alpha; `run` streams one complete Hugging Face
directory per alpha in bounded memory; `apply_alpha` writes the merge into a model that is already in
memory; `merge_adapters` merges LoRA adapters exactly. Importing this package imports neither torch nor numba,
and merging files never needs torch.
"""

from typing import TYPE_CHECKING, Any

from cef_env.merge.memory import apply_alpha, load_state_dict
from cef_env.merge.planning import Plan, plan, plan_path, plan_sum
from cef_env.merge.stream import run

if TYPE_CHECKING:
    from cef_env.merge.lora import merge_adapters
    from cef_env.merge.statistics import stats

__all__ = [
    "Plan", "apply_alpha", "load_state_dict", "merge_adapters", "plan", "plan_path", "plan_sum", "run",
    "stats",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`stats` needs numba and `merge_adapters` torch, which only their use may import."""
    if name == "stats":
        from cef_env.merge.statistics import stats

        return stats
    if name == "merge_adapters":
        from cef_env.merge.lora import merge_adapters

        return merge_adapters
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
