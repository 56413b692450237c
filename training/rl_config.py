"""The configuration of one RL run: batches, reward, loss. Read as the section `rl` of `config.py`."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from cef_env.problems import parse_coverage
from cef_env.training.fields import PositiveRate, ProperShare, Rate, Strict

CoverageField = Annotated[int | None, BeforeValidator(parse_coverage)]


class RewardConfig(Strict):
    """What an answer earns. A run of coverage k judges the tests under 10^k and keeps the levels up to k."""

    kind: Literal["coverage", "discrete", "continuous"] = "coverage"
    """R_k alone; the weighted sum of R_k over `levels`; or weighted fractions of the tests of each level that
    pass before the first failure (`cef_env.rewards`)."""
    levels: tuple[CoverageField, ...] | None = None
    """Ascending k, inf for all tests. `discrete` needs them; `continuous` takes all levels without."""
    weights: tuple[PositiveRate, ...] | None = None
    """One for each level; equal without."""

    @field_validator("levels")
    @classmethod
    def _ascending(cls, value: tuple[int | None, ...] | None) -> tuple[int | None, ...] | None:
        if value is not None:
            order = [math.inf if level is None else level for level in value]
            if not order or order != sorted(set(order)):
                raise ValueError("write at least one level, each once, in ascending order")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.kind == "coverage" and (self.levels or self.weights):
            raise ValueError("levels and weights belong to discrete and continuous, not to coverage")
        if self.kind == "discrete" and self.levels is None:
            raise ValueError("discrete needs levels, for example [2, 4, inf]")
        if self.kind == "continuous" and self.levels is not None and None in self.levels:
            raise ValueError("levels of continuous are lengths of tests: whole numbers, not inf")
        if self.weights is not None and len(self.weights) != len(self.levels or ()):
            raise ValueError(f"{len(self.levels or ())} levels but {len(self.weights)} weights")
        return self

    def within(self, coverage: int | None) -> tuple[list[int | None], list[float]]:
        """The levels that a run of this coverage can know, with their weights."""
        levels = self.levels or ()
        weights = self.weights or (1.0,) * len(levels)
        pairs = [
            (level, weight)
            for level, weight in zip(levels, weights, strict=True)
            if coverage is None or (level is not None and level <= coverage)
        ]
        return [level for level, _ in pairs], [weight for _, weight in pairs]


def _named(value: Any) -> Any:
    """`reward: continuous` stands for `reward: {kind: continuous}`."""
    return {"kind": value} if isinstance(value, str) else value


class LoRAConfig(Strict):
    """Low-rank training: only W + (alpha / rank) B A of the decoder's linear layers moves."""

    rank: PositiveInt = 8
    """Rows of A and columns of B."""
    alpha: PositiveRate = 16.0
    """Scale of the update, divided by the rank."""


class RLConfig(Strict):
    """GRPO in the environment of the setting, once for each coverage."""

    steps: PositiveInt = 24
    """Batches of rollouts; each draws new problems."""
    problems_per_step: PositiveInt = 12
    """Groups per step, those of repair prompts included."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Answers per prompt; the advantage compares them with one another."""
    reward: Annotated[RewardConfig, BeforeValidator(_named)] = RewardConfig()
    """What an answer earns: a kind, or a kind with levels and weights."""
    advantage: Literal["group_norm", "dr_grpo", "rloo"] = "group_norm"
    """(r - mean) / std of the group (GRPO); r - mean, and a loss divided by the token budget instead of the
    tokens (Dr. GRPO); or r - mean of the others (RLOO)."""
    max_redraws: NonNegativeInt = 0
    """Dynamic sampling: groups whose rewards are all equal are drawn again, with new problems, at most so
    often (DAPO); 0 turns it off."""
    repair_share: ProperShare = 0.0
    """Online fixing: this share of the groups shows a failed answer of the same batch and how it failed
    (the prompt of `cef/Repair-v0`) instead of a problem alone."""
    epochs: PositiveInt = 1
    """Passes over a batch of rollouts."""
    minibatches: PositiveInt = 1
    """Optimiser steps per pass; answers are shuffled among them."""
    micro_batch_size: PositiveInt | None = None
    """Answers per forward pass; the gradients of a minibatch are accumulated. null: all at once."""
    clip_low: ProperShare = 0.2
    """The probability ratio of a token counts down to 1 - clip_low."""
    clip_high: PositiveRate = 0.2
    """The probability ratio counts up to 1 + clip_high; more than clip_low is DAPO's clip-higher."""
    learning_rate: PositiveRate = 1e-4
    """AdamW's constant learning rate."""
    clip_norm: PositiveRate = 1.0
    """Gradients are clipped to this L2 norm."""
    kl_coef: Rate = 0.0
    """Weight of the k3 estimate of KL(policy || warm start); 0 turns it off."""
    lora: LoRAConfig | None = None
    """Train low-rank updates, merged into the checkpoint at the end; null trains all weights."""
    temperature: PositiveRate = 1.0
    """Sampling temperature of rollouts."""
    save_every: PositiveInt = 4
    """Steps between resumable checkpoints."""

    @field_validator("minibatches")
    @classmethod
    def _few_enough(cls, value: int, info: Any) -> int:
        size = info.data.get("problems_per_step", value) * info.data.get("group_size", 1)
        if value > size:
            raise ValueError(f"{value} minibatches of {size} answers; use at most one per answer")
        return value

    @field_validator("repair_share")
    @classmethod
    def _some_group(cls, value: float, info: Any) -> float:
        groups = info.data.get("problems_per_step", 1)
        if value and not 0 < round(value * groups) < groups:
            raise ValueError(f"{value:g} of {groups} groups leaves none of one kind")
        return value

    @property
    def repair_groups(self) -> int:
        """Groups of a step that show a failure, at most."""
        return round(self.repair_share * self.problems_per_step)
