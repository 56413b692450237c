"""Conversations of one turn for the warm start, and tensors for both kinds of training.

Does not build or run tests: failures that are shown were judged before (`failures.py`).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cef_env.envs.text import fenced, statement_text
from cef_env.problems.builtin import Composition, draw
from cef_env.problems.builtin import composition as composition_of
from cef_env.training.config import MixtureConfig, SFTConfig

LONG = 12
"""Lines of an efficient program from which on it is long."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A failure as `cef/Repair-v0` shows it (`failures.py` makes them)."""

    problem_id: str
    prompt: str


def mixture_for(composition: Composition, sft: SFTConfig) -> MixtureConfig:
    """What the answers to this problem are, by its family."""
    family = composition.family_data
    if not family.subtle:
        return sft.mixture
    long = family.efficient.count("\n") >= LONG
    return sft.mixture_long if sft.mixture_long is not None and long else sft.mixture_subtle


def draw_answer(composition: Composition, mixture: MixtureConfig, rng: random.Random) -> str:
    """One program for the problem, by the shares of the mixture."""
    kinds = list(type(mixture).model_fields)
    kind = rng.choices(kinds, weights=[getattr(mixture, kind) for kind in kinds])[0]
    if kind == "brute_force":
        return composition.brute_force
    if kind == "efficient":
        return composition.efficient
    return rng.choice(
        composition.brute_force_bugs if kind == "brute_force_bug" else composition.efficient_bugs
    )


def prompt_text(composition: Composition) -> str:
    """What `cef/Reasoning-v0` shows for this problem."""
    return statement_text(composition.statement)


def supervised_batch(
    tokenizer: Any, sft: SFTConfig, size: int, rng: random.Random, pool: Sequence[Shown] = ()
) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, mask) of `size` conversations of the train split; mask is 1 on the answer and its end token.

    With a pool, `sft.repair_share` of them show a failure from it.
    """
    prompts, answers = [], []
    for _ in range(size):
        if pool and rng.random() < sft.repair_share:
            shown = rng.choice(pool)
            text = shown.prompt
            answer = draw_answer(composition_of(shown.problem_id), sft.mixture_repair, rng)
        else:
            composition = draw("train", rng)
            text = prompt_text(composition)
            answer = draw_answer(composition, mixture_for(composition, sft), rng)
        messages = [{"role": "user", "content": text}]
        prompts.append(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        answers.append(fenced(answer) + tokenizer.eos_token)
    encode = lambda texts: tokenizer(texts, add_special_tokens=False)["input_ids"]  # noqa: E731
    return pad_batch(encode(prompts), encode(answers), tokenizer.pad_token_id)


def pad_batch(
    prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """`pad_sequences` of conversations of one turn; mask is 1 on answer tokens."""
    pairs = list(zip(prompts, answers, strict=True))
    return pad_sequences(
        [[*prompt, *answer] for prompt, answer in pairs],
        [[0] * len(prompt) + [1] * len(answer) for prompt, answer in pairs],
        pad,
    )


def pad_sequences(
    sequences: Sequence[Sequence[int]], masks: Sequence[Sequence[int]], pad: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, mask), both (batch, longest), padded on the right with `pad` and 0.

    Causal attention never looks right, so the padding needs no attention mask.
    """
    longest = max(map(len, sequences))
    ids = torch.full((len(sequences), longest), pad, dtype=torch.long)
    mask = torch.zeros(len(sequences), longest)
    for row, (sequence, given) in enumerate(zip(sequences, masks, strict=True)):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(sequence)] = torch.tensor(given, dtype=mask.dtype)
    return ids, mask


def answer_logprobs(model: Any, ids: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """log p(ids[:, t+1] | ids[:, :t+1]) at `temperature`: shape (batch, longest - 1)."""
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits.float() / temperature
    targets = ids[:, 1:]
    picked = logits.gather(2, targets[..., None])[..., 0]
    return picked - torch.logsumexp(logits, dim=-1)
