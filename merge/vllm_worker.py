"""Sets alpha inside the workers of a running vLLM engine: no merged checkpoint touches the disk.

    from vllm import LLM
    from cef_env.merge.vllm_worker import EXTENSION, set_alpha
    llm = LLM("high", worker_extension_cls=EXTENSION)
    for alpha in (-0.5, 0.5, 1.5):
        set_alpha(llm, "low", "high", alpha)
        llm.generate(...)

Every worker reads both checkpoints tensor by tensor, and gets the same bits that `cef_env.merge.run` writes.
Does *not* serve two alphas at once: for that use LoRA adapters (`merge_adapters`), or more engines. Needs
vLLM only where it runs.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cef_env.errors import InstrumentError, UserError
from cef_env.merge.planning import plan

if TYPE_CHECKING:
    import torch

EXTENSION = "cef_env.merge.vllm_worker.AlphaWorker"
"""Value of vLLM's `worker_extension_cls`."""


class AlphaWorker:
    """What vLLM adds to its workers; `self` is the worker."""

    def cef_set_alpha(self, low: str, high: str, alpha: float) -> None:
        """Load alpha * high + (1 - alpha) * low over the weights that this worker holds."""
        self.reload_weights(weights_iterator=merged_tensors(low, high, alpha))  # type: ignore[attr-defined]
        # The CPU build multiplies by packed copies of the weights. A head that is tied to the embeddings is
        # in no checkpoint, so reloading leaves its copy as it was: pack it again.
        for module in self.get_model().modules():  # type: ignore[attr-defined]
            if hasattr(module, "cpu_linear") and module.weight.numel():
                module.quant_method.process_weights_after_loading(module)


def set_alpha(llm: Any, low: str | os.PathLike[str], high: str | os.PathLike[str], alpha: float) -> None:
    """Give every worker of `llm` (a `vllm.LLM` with this extension) the weights at `alpha`.

    `low`, `high`: checkpoint directories that every worker can read, of the model that `llm` serves. The
    prefix cache is emptied, so no answer is continued from keys and values of other weights. Call it while
    no request is running. Raises `UserError` as `plan` does, and `InstrumentError` when the cache could
    not be emptied because requests are running.
    """
    if not math.isfinite(alpha):
        raise UserError(f"alpha {alpha} is not finite; give a finite number")
    paths = [str(Path(path).resolve()) for path in (low, high)]
    plan(paths[0], paths[1], [alpha])  # refuses here, with one line, what would end the workers there
    if not llm.reset_prefix_cache():
        raise InstrumentError("vLLM has requests running; set alpha when they are finished")
    llm.collective_rpc("cef_set_alpha", args=(*paths, float(alpha)))
    # Reloading weights does not do this by itself, and the first call was before the change.
    if not llm.reset_prefix_cache():
        raise InstrumentError("vLLM could not empty its prefix cache; answers may mix two alphas")


def merged_tensors(low: str, high: str, alpha: float) -> "Iterator[tuple[str, torch.Tensor]]":
    """(name, tensor) of the merge, one at a time, on the CPU."""
    from safetensors import safe_open

    from cef_env.merge.tensors import blend, require_finite

    made = plan(low, high, [alpha])
    files = {
        (checkpoint.path, file): safe_open(checkpoint.path / file, framework="pt")
        for checkpoint in made.sources
        for file in checkpoint.files
    }
    for name in made.high.tensors:
        left, right = (files[c.path, c.tensors[name].file].get_tensor(name) for c in made.sources)
        if left.is_floating_point():
            right = blend(left, right, float(alpha), right.dtype)
            require_finite(right, f"{name} at alpha {alpha:g}", "use an alpha nearer [0, 1]")
        yield name, right
