"""Weight averaging inside and outside [0, 1]: theta(alpha) = alpha * high + (1 - alpha) * low.

`plan` checks two checkpoints and a list of alphas without writing a byte; `run` streams one complete
Hugging Face directory per alpha in bounded memory; `apply_alpha` writes the merge into a model that is
already in memory. Importing this package imports neither torch nor safetensors.
"""

from cef_env.merge.memory import apply_alpha, load_state_dict
from cef_env.merge.planning import Plan, plan
from cef_env.merge.stream import run

__all__ = ["Plan", "apply_alpha", "load_state_dict", "plan", "run"]
