"""Tiny models: a tokenizer trained on the spot and a Qwen2-architecture decoder built from nothing.

The checkpoint is an ordinary Hugging Face directory with a chat template, so that everything that loads
Qwen2.5 loads it. Does not train the model: see `sft.py` and `grpo.py`.
"""

import random
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from cef_env.envs.text import fenced
from cef_env.files import folder_atomic
from cef_env.problems.builtin import draw
from cef_env.training.config import MixtureConfig, ModelConfig, TokenizerConfig
from cef_env.training.data import draw_answer, prompt_text

END = "<|im_end|>"
START = "<|im_start|>"
PAD = "<|endoftext|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def train_tokenizer(config: TokenizerConfig, mixture: MixtureConfig, seed: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE over problems and programs, split at newlines only.

    A line that recurs (`for i in range(n):`) becomes one token, so a program is 20 to 90 tokens long.
    """
    rng = random.Random(seed)
    lines: list[str] = []
    for _ in range(config.problems):
        composition = draw("train", rng)
        lines += [prompt_text(composition), fenced(draw_answer(composition, mixture, rng))]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[^\n]*\n|[^\n]+"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, padding_side="left")
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(config: ModelConfig, tokenizer: PreTrainedTokenizerFast, seed: int) -> Any:
    """A randomly initialised Qwen2ForCausalLM with tied embeddings, in float32."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            max_position_embeddings=config.max_length,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def save_checkpoint(path: Path, model: Any, tokenizer: Any) -> None:
    """A complete Hugging Face directory, present only when whole."""

    def fill(folder: Path) -> None:
        model.save_pretrained(folder, safe_serialization=True)
        tokenizer.save_pretrained(folder)

    folder_atomic(path, fill)
