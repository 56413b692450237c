"""Tiny real models for the tests of merging."""

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
