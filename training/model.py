"""Tiny models: a tokenizer trained on the spot and a Qwen2-architecture decoder built from nothing.

The checkpoint is an ordinary Hugging Face directory with a chat template, so that everything that loads
Qwen2.5 loads it. Does not train the model: see `sft.py` and `grpo.py`.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from cef_env.envs.text import fenced
from cef_env.files import folder_atomic
from cef_env.problems.builtin import draw
from cef_env.training.config import ModelConfig, SFTConfig, TokenizerConfig
from cef_env.training.data import draw_answer, mixture_for, prompt_text

END = "<|im_end|>"
START = "<|im_start|>"
PAD = "<|endoftext|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def train_tokenizer(
    config: TokenizerConfig, sft: SFTConfig, seed: int, shown: Sequence[str] = (), whole: Sequence[str] = ()
) -> Qwen2Tokenizer:
    """A Qwen2 tokenizer in which every frequent line of problems and programs is one token.

    The rest is byte-level BPE with Qwen2's own splitting, so any text can be written. A program is then
    about as many tokens as it has lines (10 to 30), which is what makes the miniature fast. Lines are added
    tokens rather than merges, because `AutoTokenizer` gives every qwen2 model Qwen2's pre-tokenizer,
    whatever tokenizer.json says; added tokens are matched before it. `shown`: prompts that hold failures,
    which are read, too. `whole`: further texts that are one token each.
    """
    rng = random.Random(seed)
    texts: list[str] = []
    for _ in range(config.problems):
        composition = draw("train", rng)
        texts += [
            prompt_text(composition),
            fenced(draw_answer(composition, mixture_for(composition, sft), rng)),
        ]
    texts += shown
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = Qwen2Tokenizer().backend_tokenizer.pre_tokenizer
    trained.train_from_iterator(texts, trainer)
    bpe = json.loads(trained.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=bpe["vocab"],
        merges=[tuple(merge) for merge in bpe["merges"]],  # type: ignore[misc]
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=[START],
    )
    count = Counter(line for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n"))
    lines = sorted(count, key=lambda line: (-count[line], line))[: config.lines]
    added = dict.fromkeys([*lines, *whole])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def build_model(config: ModelConfig, tokenizer: Qwen2Tokenizer, seed: int) -> Any:
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
