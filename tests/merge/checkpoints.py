"""Tiny real models for the tests of merging, and how their weights are to be rounded."""

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM


def make_model(
    seed: int, dtype: torch.dtype = torch.bfloat16, tied: bool = True, **changes: int
) -> Qwen2ForCausalLM:
    torch.manual_seed(seed)
    settings = {
        "vocab_size": 61,
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "tie_word_embeddings": tied,
    }
    return Qwen2ForCausalLM(Qwen2Config(**{**settings, **changes})).to(dtype)


# Significand bits with the leading one, exponent of the smallest step.
LAYOUT = {torch.bfloat16: (8, -133), torch.float16: (11, -24), torch.float32: (24, -149)}


def rounded(values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """float64 `values` rounded once to `dtype`, ties to even; torch rounds twice (float32 between)."""
    bits, smallest = LAYOUT[dtype]
    step = np.maximum(np.frexp(values)[1] - bits, smallest)
    return np.ldexp(np.rint(np.ldexp(values, -step)), step)


def array(values: torch.Tensor) -> np.ndarray:
    """The array that the kernel holds these values in."""
    return values.view(torch.uint16).numpy() if values.dtype == torch.bfloat16 else values.numpy()
