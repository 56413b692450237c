"""One batch of rollouts -> optimiser steps: PPO's clipped objective on the advantages of `advantages.py`.

An answer is all that the policy said in an episode, over all its turns; what it was told is context. With one
epoch and one minibatch the update is on-policy: the ratio is 1 and nothing is clipped. Does not sample: see
`rollouts.py`.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cef_env.agents import Trajectory
from cef_env.errors import InstrumentError
from cef_env.training.advantages import ADVANTAGES
from cef_env.training.data import answer_logprobs, pad_sequences
from cef_env.training.hardware import Hardware
from cef_env.training.rl_config import RLConfig

MAX_LOGPROB_GAP = 1e-2
"""Largest accepted difference, in nats, between a token's log-prob at sampling and at training time."""
MAX_MEAN_GAP_BFLOAT16 = 5e-2
"""The same under bfloat16, where single unlikely tokens may differ by more: the mean over tokens."""

Positions = Sequence[int]
"""Of answers in the batch."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An episode as one sequence."""

    tokens: tuple[int, ...]
    mask: tuple[int, ...]
    """1 where the policy sampled the token."""
    logprobs: tuple[float, ...]
    """Of these tokens when they were sampled."""

    @classmethod
    def of(cls, trajectory: Trajectory) -> "Answer":
        logprobs = tuple(value for reply in trajectory.replies for value in reply.logprobs)
        return cls(trajectory.tokens, trajectory.mask, logprobs)


@dataclass(frozen=True)
class Learner:
    """A policy and what changes it."""

    model: Any
    reference: Any | None
    """The warm start; None without a KL term."""
    optimizer: torch.optim.Optimizer
    rl: RLConfig
    pad: int
    """Id of the padding token."""
    budget: int
    """Tokens that an answer may have: those of a message, times messages."""
    hardware: Hardware

    def update(self, trajectories: Sequence[Trajectory], seed: int) -> dict[str, float | None]:
        """Learns from trajectories that are grouped by `rl.group_size` in order.

        Loss of a minibatch: -sum over answer tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), plus
        `kl_coef` times the k3 estimate of KL(policy || reference), divided by the number of answer tokens
        (dr_grpo: by answers times token budget). r is the ratio of a token's probability to that before the
        update. Groups whose rewards are all equal carry no advantage and, without a KL term, are left out.

        Returns means over all passes; `kl` is None where it is not measured. Raises `InstrumentError` when
        the recomputed log-probs are not the sampler's.
        """
        rl = self.rl
        rewards = torch.tensor([float(t.reward) for t in trajectories]).view(-1, rl.group_size)
        advantages = ADVANTAGES[rl.advantage](rewards).view(-1)
        kept = [i for i in range(len(trajectories)) if self.reference is not None or advantages[i] != 0]
        if not kept:
            return {"logprob_gap": 0.0, "kl": None, "clip_fraction": 0.0, "grad_norm": 0.0}
        answers = [Answer.of(trajectory) for trajectory in trajectories]
        on_policy = rl.epochs * rl.minibatches == 1
        gaps: list[torch.Tensor] = []
        old = None if on_policy else self._before(answers, kept, gaps)
        sums: dict[str, float] = defaultdict(float)
        norms: list[float] = []
        rng = random.Random(seed)
        for _ in range(rl.epochs):
            parts = self._minibatches(kept, rng)
            for part in parts:
                if rl.advantage == "dr_grpo":
                    divisor = self.budget * len(trajectories) / len(parts)
                else:
                    divisor = sum(len(answers[i].logprobs) for i in part)
                self.optimizer.zero_grad(set_to_none=True)
                for micro in self._micro(part):
                    loss = self._loss(answers, micro, advantages, old, gaps, sums)
                    (loss / divisor).backward()
                trained = [p for p in self.model.parameters() if p.requires_grad]
                norms.append(float(torch.nn.utils.clip_grad_norm_(trained, rl.clip_norm)))
                if on_policy:
                    self._require_agreement(gaps)
                self.optimizer.step()
        return {
            "logprob_gap": float(f"{torch.cat(gaps).max().item():.3g}"),
            "kl": None if self.reference is None else round(sums["kl"] / sums["tokens"], 6),
            "clip_fraction": round(sums["clipped"] / sums["tokens"], 6),
            "grad_norm": round(sum(norms) / len(norms), 6),
        }

    def _minibatches(self, kept: Positions, rng: random.Random) -> list[Positions]:
        """The answers of each optimiser step of one pass."""
        count = self.rl.minibatches
        if count == 1:
            return [kept]
        shuffled = rng.sample(kept, len(kept))
        return [shuffled[i::count] for i in range(min(count, len(kept)))]

    def _micro(self, part: Positions) -> Iterator[Positions]:
        """The answers of each forward pass."""
        size = self.rl.micro_batch_size or len(part)
        for start in range(0, len(part), size):
            yield part[start : start + size]

    def _loss(
        self,
        answers: Sequence[Answer],
        micro: Positions,
        advantages: torch.Tensor,
        old: dict[int, torch.Tensor] | None,
        gaps: list[torch.Tensor],
        sums: dict[str, float],
    ) -> torch.Tensor:
        """Sum over the answer tokens of one forward pass; adds to `gaps` and `sums`."""
        rl = self.rl
        ids, mask, logprobs = self._forward(self.model, answers, micro)  # (micro, longest - 1)
        if old is None:
            gaps.append(self._gap(answers, micro, logprobs, mask))
            before = logprobs.detach()
        else:
            before = _filled(mask, torch.cat([old[i] for i in micro]))
        weights = advantages[list(micro)].to(logprobs)[:, None]  # (micro, 1)
        ratio = (logprobs - before).exp()
        plain = ratio * weights
        clipped = ratio.clamp(1 - rl.clip_low, 1 + rl.clip_high) * weights
        loss = -(torch.minimum(plain, clipped) * mask).sum()
        sums["tokens"] += float(mask.sum())
        sums["clipped"] += float(((clipped < plain) * mask).sum())
        if self.reference is not None:
            with torch.no_grad():
                anchor = self._logprobs(self.reference, ids)
            difference = anchor - logprobs
            kl = ((difference.exp() - 1 - difference) * mask).sum()
            sums["kl"] += float(kl.detach())
            loss = loss + rl.kl_coef * kl
        return loss

    @torch.no_grad()
    def _before(
        self, answers: Sequence[Answer], kept: Positions, gaps: list[torch.Tensor]
    ) -> dict[int, torch.Tensor]:
        """Log-probs of each answer's tokens before the first step."""
        found: dict[int, torch.Tensor] = {}
        for micro in self._micro(kept):
            _, mask, logprobs = self._forward(self.model, answers, micro)
            gaps.append(self._gap(answers, micro, logprobs, mask))
            for i, row, row_mask in zip(micro, logprobs, mask, strict=True):
                found[i] = row[row_mask.bool()]
        self._require_agreement(gaps)
        return found

    def _forward(
        self, model: Any, answers: Sequence[Answer], micro: Positions
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(ids, mask, log-probs) of some answers; the last two are (answers, longest - 1)."""
        chosen = [answers[i] for i in micro]
        ids, mask = pad_sequences([a.tokens for a in chosen], [a.mask for a in chosen], self.pad)
        ids, mask = ids.to(self.hardware.device), mask[:, 1:].to(self.hardware.device)
        return ids, mask, self._logprobs(model, ids)

    def _logprobs(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        with self.hardware.autocast():
            return answer_logprobs(model, ids, self.rl.temperature)

    def _gap(
        self, answers: Sequence[Answer], micro: Positions, logprobs: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """|log-prob now - at sampling| of every answer token."""
        sampled = torch.tensor([value for i in micro for value in answers[i].logprobs])
        return (logprobs.detach()[mask.bool()].cpu() - sampled).abs()

    def _require_agreement(self, gaps: Sequence[torch.Tensor]) -> None:
        gap = torch.cat(list(gaps))
        found, limit = (
            (gap.mean().item(), MAX_MEAN_GAP_BFLOAT16)
            if self.hardware.bfloat16
            else (gap.max().item(), MAX_LOGPROB_GAP)
        )
        if not found <= limit:
            raise InstrumentError(
                f"log-probs at training time differ from the sampler's by {found:.3g} nats "
                f"(at most {limit} is accepted): sampler and model disagree"
            )


def _filled(mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """`values`, row after row, where `mask` is 1; 0 elsewhere."""
    filled = torch.zeros_like(mask)
    filled[mask.bool()] = values
    return filled
