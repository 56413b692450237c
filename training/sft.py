"""The warm start: supervised training of a tiny model on right, slow, fast and buggy programs, or on episodes
of a policy that writes such programs and tries them.

Resumable and bit-for-bit repeatable: every step's data comes from (seed, step), and a checkpoint holds
model and optimiser. Does not evaluate. Command: `cef train sft CONFIG --out DIR`.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import Qwen2Tokenizer

from cef_env.errors import UserError
from cef_env.files import folder_atomic
from cef_env.judge import Judge
from cef_env.training.config import Config
from cef_env.training.data import Shown, answer_logprobs, supervised_batch
from cef_env.training.failures import failure_pool
from cef_env.training.hardware import Hardware
from cef_env.training.model import build_model, save_checkpoint, train_tokenizer
from cef_env.training.state import TrainState
from cef_env.training.trajectories import (
    Conversation,
    encode,
    tool_tokens,
    trajectory_batch,
    trajectory_pool,
)

Progress = Callable[[int, int, str], None]
"""Called with (done, total, note) after every step."""


def learning_rate(step: int, steps: int, peak: float, warmup: int) -> float:
    """Linear warm-up to `peak`, then linear decay to 5% of it at the last step."""
    return peak * min(1.0, (step + 1) / max(1, warmup)) * (0.05 + 0.95 * (1 - step / steps))


def train_sft(config: Config, out: Path, progress: Progress, judge: Judge | None = None) -> Path:
    """Trains the tokenizer and the warm start; returns the checkpoint directory `out/model`.

    Continues from `out/state.pt` when it is there. `judge` is for the failures that `sft.repair_share` asks
    for; None starts one when it is needed.
    """
    final = out / "model"
    if final.exists():
        return final
    out.mkdir(parents=True, exist_ok=True)
    sft = config.sft
    hardware = Hardware.choose(config.precision)
    pool = failure_pool(config, out, judge) if sft.repair_share else []
    played = [] if config.setting == "reasoning" else trajectory_pool(config, out, judge, progress)
    tokenizer = _tokenizer(config, out / "tokenizer", pool, played)
    encoded = [encode(tokenizer, conversation) for conversation in played]
    model = build_model(config.model, tokenizer, config.seed).to(hardware.device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=sft.learning_rate, betas=(0.9, 0.95), weight_decay=sft.weight_decay
    )
    state = TrainState(out, model, optimizer)
    model.train()
    for step in range(state.step, sft.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, sft.steps, sft.learning_rate, sft.warmup_steps)
        rng = random.Random(f"sft {config.seed} {step}")
        if encoded:
            ids, mask = trajectory_batch(encoded, sft.batch_size, rng, tokenizer.pad_token_id)
        else:
            ids, mask = supervised_batch(tokenizer, sft, sft.batch_size, rng, pool)
        ids, mask = ids.to(hardware.device), mask.to(hardware.device)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        size = sft.micro_batch_size or sft.batch_size
        for micro, micro_mask in zip(ids.split(size), mask.split(size), strict=True):
            longest = int(micro_mask.any(0).nonzero().max()) + 1
            micro, micro_mask = micro[:, :longest], micro_mask[:, :longest]
            with hardware.autocast():
                logprobs = answer_logprobs(model, micro)
            loss = -(logprobs * micro_mask[:, 1:]).sum() / mask.sum()
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), sft.clip_norm)
        optimizer.step()
        state.log({"step": step, "loss": round(total, 6), "tokens": int(mask.sum())})
        if (step + 1) % sft.save_every == 0 or step + 1 == sft.steps:
            state.save(step + 1)
        progress(step + 1, sft.steps, f"loss {total:.3f}")
    state.write_log()
    save_checkpoint(final, model, tokenizer)
    state.discard()
    return final


def _tokenizer(
    config: Config, folder: Path, pool: Sequence[Shown], played: Sequence[Conversation]
) -> Qwen2Tokenizer:
    """The run's tokenizer, trained once and kept, so that a resumed run reads the same tokens."""
    if not folder.exists():
        whole = tool_tokens(config.setting, played) if played else []
        prompts = [shown.prompt for shown in pool]
        trained = train_tokenizer(config.tokenizer, config.sft, config.seed, prompts, whole)
        folder_atomic(folder, trained.save_pretrained)
    try:
        return Qwen2Tokenizer.from_pretrained(folder)
    except Exception as error:  # the loader raises whatever its formats raise
        raise UserError(f"tokenizer {str(folder)!r} does not load; delete it and run again") from error


__all__ = ["Progress", "learning_rate", "train_sft"]
