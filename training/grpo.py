"""GRPO on one machine: reinforcement learning against `cef/Reasoning-v0` with reward R_k.

One on-policy update per batch of rollouts, advantages normalised within the group of answers to one
problem, optional KL to the warm start. Repeatable and resumable: rollouts, problems and updates derive
from (seed, step). For clusters use OpenRLHF (`training/openrlhf`). Command: `cef train rl CONFIG`.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from cef_env.agents import Trajectory, rollout
from cef_env.agents.transformers_agent import TransformersAgent, load_model
from cef_env.errors import InstrumentError
from cef_env.judge import Judge, Outcome
from cef_env.problems import Coverage, builtin
from cef_env.training.config import Config, RLConfig
from cef_env.training.data import answer_logprobs, pad_batch
from cef_env.training.model import save_checkpoint
from cef_env.training.sft import Progress
from cef_env.training.state import TrainState

MAX_LOGPROB_GAP = 1e-2
"""Largest accepted difference, in nats, between a token's log-prob at sampling and at training time."""


def group_advantages(rewards: torch.Tensor) -> torch.Tensor:
    """(r - mean) / std within each row of (groups, group_size); 0 where a group's rewards are all equal.

    The standard deviation is the population's (divides by group_size), as in GRPO.
    """
    centred = rewards - rewards.mean(1, keepdim=True)
    std = rewards.std(1, keepdim=True, correction=0)
    return torch.where(std > 0, centred / std.clamp(min=1e-6), torch.zeros_like(centred))


def train_rl(
    config: Config, coverage: Coverage, warm_start: Path, out: Path, judge: Judge, progress: Progress
) -> Path:
    """One RL run from the warm start; returns the checkpoint directory `out/model`.

    Runs of different coverages with the same seed see the same problems. Continues from `out/state.pt`
    when it is there.
    """
    final = out / "model"
    if final.exists():
        return final
    out.mkdir(parents=True, exist_ok=True)
    rl = config.rl
    model, tokenizer = load_model(warm_start)
    reference = load_model(warm_start)[0] if rl.kl_coef else None
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=rl.learning_rate, betas=(0.9, 0.95), weight_decay=0.0
    )
    state = TrainState(out, model, optimizer)
    agent = TransformersAgent(model, tokenizer, rl.temperature, config.max_new_tokens)
    problems = builtin.load("train", count=rl.steps * rl.problems_per_step, seed=config.seed)
    envs = [
        gym.make(
            "cef/Reasoning-v0", disable_env_checker=True, coverage=coverage, problems=problems, judge=judge
        )
        for _ in range(rl.problems_per_step * rl.group_size)
    ]
    for step in range(state.step, rl.steps):
        ids = problems.ids[step * rl.problems_per_step : (step + 1) * rl.problems_per_step]
        wanted = [id_ for id_ in ids for _ in range(rl.group_size)]
        trajectories = rollout(envs, agent, wanted, seed=config.seed * 1_000_003 + step)
        row = update(model, reference, optimizer, trajectories, rl, tokenizer.pad_token_id)
        state.log({"step": step, **row})
        if (step + 1) % rl.save_every == 0 or step + 1 == rl.steps:
            state.save(step + 1)
        progress(step + 1, rl.steps, f"reward {row['reward']:.2f}")
    state.write_log()
    save_checkpoint(final, model, tokenizer)
    state.discard()
    return final


def update(
    model: Any,
    reference: Any | None,
    optimizer: torch.optim.Optimizer,
    trajectories: Sequence[Trajectory],
    rl: RLConfig,
    pad: int,
) -> dict[str, float]:
    """One policy-gradient step on single-turn trajectories, grouped by `rl.group_size` in order.

    Loss: -mean over answer tokens of advantage * log p, plus `kl_coef` times the k3 estimate of
    KL(policy || reference). Groups whose rewards are all equal carry no advantage and, without a KL
    term, are left out. Raises `InstrumentError` when the recomputed log-probs are not the sampler's.
    """
    rewards = torch.tensor([float(trajectory.reward) for trajectory in trajectories])
    rewards = rewards.view(-1, rl.group_size)
    advantages = group_advantages(rewards).view(-1)
    kept = [i for i in range(len(trajectories)) if reference is not None or advantages[i] != 0]
    row = describe(trajectories)
    if not kept:
        return {**row, "logprob_gap": 0.0, "kl": 0.0, "grad_norm": 0.0}
    replies = [trajectories[i].replies[0] for i in kept]
    ids, mask = pad_batch([r.prompt_ids for r in replies], [r.token_ids for r in replies], pad)
    mask = mask[:, 1:]
    logprobs = answer_logprobs(model, ids, rl.temperature)  # (kept, longest - 1)

    sampled = torch.zeros_like(mask)
    sampled[mask.bool()] = torch.tensor([value for reply in replies for value in reply.logprobs])
    gap = ((logprobs.detach() - sampled) * mask).abs().max().item()
    if gap > MAX_LOGPROB_GAP:
        raise InstrumentError(
            f"log-probs at training time differ from the sampler's by {gap:.3g} nats "
            f"(at most {MAX_LOGPROB_GAP} is accepted): sampler and model disagree"
        )

    loss = -(advantages[kept][:, None] * logprobs * mask).sum() / mask.sum()
    kl = torch.zeros(())
    if reference is not None:
        with torch.no_grad():
            anchor = answer_logprobs(reference, ids, rl.temperature)
        difference = anchor - logprobs
        kl = ((difference.exp() - 1 - difference) * mask).sum() / mask.sum()
        loss = loss + rl.kl_coef * kl
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), rl.clip_norm)
    optimizer.step()
    return {
        **row,
        "logprob_gap": float(f"{gap:.3g}"),
        "kl": round(kl.item(), 6),
        "grad_norm": round(float(norm), 6),
    }


def describe(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Mean reward, share of each outcome (over the tests judged) and mean answer length in tokens."""
    outcomes = Counter(trajectory.outcome for trajectory in trajectories)
    total = len(trajectories)
    return {
        "reward": round(sum(t.reward for t in trajectories) / total, 6),
        **{str(outcome): round(outcomes[outcome] / total, 6) for outcome in Outcome},
        "tokens": round(sum(len(t.replies[0].token_ids) for t in trajectories) / total, 2),
    }
