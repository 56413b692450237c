"""The configuration of a whole reproduction, as pydantic models read from YAML.

Presets live in `training/configs/*.yaml`. Unknown keys are errors: a typo must not train something else.
"""

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from cef_env.errors import UserError
from cef_env.training.fields import PositiveRate, ProperShare, Rate, Strict
from cef_env.training.reading import examples, layered, read_config, validated
from cef_env.training.rl_config import CoverageField, RLConfig

FOLDER = "configs"
"""Of the presets, in `training`."""
CONTROL = r"^(random-direction|temperature=\d+(\.\d+)?(,\d+(\.\d+)?)*)$"
Setting = Literal["reasoning", "tool_use", "agentic"]
SETTINGS = ", ".join(get_args(Setting))


class ModelConfig(Strict):
    """A decoder of the Qwen2 architecture, built from nothing."""

    hidden_size: PositiveInt = 128
    """Width of the residual stream."""
    intermediate_size: PositiveInt = 384
    """Width of the gated MLP."""
    layers: PositiveInt = 3
    """Number of decoder layers."""
    heads: PositiveInt = 4
    """Attention heads; `hidden_size` must be a multiple of it."""
    kv_heads: PositiveInt = 4
    """Key-value heads; `heads` must be a multiple of it."""
    max_length: PositiveInt = 512
    """Longest sequence, prompt and answer together, in tokens."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % (2 * self.heads):
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of 2 * heads ({self.heads})")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} must be a multiple of kv_heads {self.kv_heads}")
        return self


class TokenizerConfig(Strict):
    """A Qwen2 tokenizer trained on the spot, with one token for every frequent line."""

    vocab_size: Annotated[int, Field(ge=259)] = 384
    """Tokens of the byte-level BPE, the 256 bytes and the special tokens included."""
    lines: NonNegativeInt = 1024
    """How many whole lines are tokens of their own; the most frequent ones."""
    problems: PositiveInt = 3000
    """How many problems its training text is drawn from."""


class MixtureConfig(Strict):
    """Which program answers a problem in the warm start's data; the shares sum to 1."""

    brute_force: Rate = 0.45
    """Share of correct slow programs."""
    efficient: Rate = 0.12
    """Share of correct fast programs."""
    brute_force_bug: Rate = 0.10
    """Share of slow programs with a natural bug."""
    efficient_bug: Rate = 0.33
    """Share of fast programs with a natural bug."""

    @model_validator(mode="after")
    def _sums_to_one(self) -> Self:
        total = sum(self.model_dump().values())
        if abs(total - 1) > 1e-9:
            raise ValueError(f"the shares sum to {total:g}, not 1")
        return self


SUBTLE = MixtureConfig(brute_force=0.45, efficient=0.06, brute_force_bug=0.10, efficient_bug=0.39)
"""Where the efficient program is long or subtle, this policy gets it wrong six times out of seven."""

REPAIR = MixtureConfig(brute_force=0.20, efficient=0.25, brute_force_bug=0.10, efficient_bug=0.45)
"""Shown a failure, this policy tries the efficient program more often, and mostly gets it wrong."""

FIX = MixtureConfig(brute_force=0.30, efficient=0.35, brute_force_bug=0.05, efficient_bug=0.30)
"""Once a sample has failed, this policy is right more often, and still often wrong."""


class SFTConfig(Strict):
    """The warm start: supervised next-token training on programs of the train split."""

    steps: PositiveInt = 420
    """Optimiser steps."""
    batch_size: PositiveInt = 48
    """Programs per step."""
    learning_rate: PositiveRate = 3e-3
    """Peak of AdamW's learning rate; linear warm-up, then linear decay to 5%."""
    warmup_steps: NonNegativeInt = 50
    """Steps of the warm-up."""
    weight_decay: Rate = 0.01
    """AdamW's decoupled weight decay."""
    clip_norm: PositiveRate = 1.0
    """Gradients are clipped to this L2 norm."""
    mixture: MixtureConfig = MixtureConfig()
    """What the answers are, for families whose efficient program is short."""
    mixture_subtle: MixtureConfig = SUBTLE
    """What the answers are, for families whose efficient program is long or subtle (the `hard` ones)."""
    mixture_long: MixtureConfig | None = None
    """What the answers are, for those of them whose efficient program is long (12 lines or more); null: as
    the other subtle ones."""
    micro_batch_size: PositiveInt | None = None
    """Programs per forward pass; the gradients of a step are accumulated. null: all at once."""
    repair_share: ProperShare = 0.0
    """Share of the examples that show a failed program and how it failed, as `cef/Repair-v0` does."""
    repair_pool: PositiveInt = 300
    """How many failures are judged for these examples, half at each coverage."""
    mixture_repair: MixtureConfig = REPAIR
    """What the answers to failures are."""
    episodes: PositiveInt = 800
    """tool_use and agentic: how many episodes a scripted agent plays, which the warm start learns from."""
    mixture_fix: MixtureConfig = FIX
    """tool_use and agentic: what replaces a program that failed a sample."""
    save_every: PositiveInt = 50
    """Steps between resumable checkpoints."""


class SweepConfig(Strict):
    """Evaluation of the merged checkpoints."""

    alphas: tuple[FiniteFloat, ...] = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
    """theta(alpha) = alpha * high + (1 - alpha) * low."""
    problems: dict[Literal["train", "easy", "hard"], PositiveInt] = Field(
        default={"hard": 96, "easy": 96}, min_length=1
    )
    """How many problems of each split."""
    samples: PositiveInt = 24
    """Answers per problem and alpha."""
    chunk_problems: PositiveInt = 16
    """Problems per unit of work; a killed sweep redoes at most one."""
    temperature: PositiveRate = 1.0
    """Sampling temperature."""
    controls: tuple[Annotated[str, Field(pattern=CONTROL)], ...] = ()
    """As of `cef eval --control`: random-direction (one for each alpha of [-0.5, 1.5] outside [0, 1]), or
    temperature=T."""
    problem_seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """Draws the held-out problems; null: the run's seed. Runs with the same one can be compared problem by
    problem."""

    @field_validator("alphas")
    @classmethod
    def _endpoints(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(value)) != len(value) or not {0.0, 1.0} <= set(value):
            raise ValueError("alphas must be distinct and contain the endpoints 0 and 1")
        return tuple(sorted(value))


class VariantConfig(Strict):
    """A further RL run from the same warm start, whose checkpoint is evaluated beside the alphas."""

    coverage: CoverageField
    """Coverage k of its reward; inf for all tests."""
    rl: dict[str, Any] = Field(default={})
    """What differs from section `rl`."""


class Config(Strict):
    """One reproduction: warm start, one RL run per coverage, sweep over alpha, report."""

    preset: str
    """The name that messages and reports use."""
    setting: Setting = "reasoning"
    """Of the paper: one turn, turns with Python calls, or turns in a terminal (`settings.py`)."""
    max_turns: Annotated[int, Field(ge=2)] = 4
    """tool_use and agentic: messages of an episode, the one that answers included."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Every random choice derives from it."""
    max_new_tokens: PositiveInt = 128
    """Token budget of one message, in training and evaluation."""
    coverages: dict[Literal["low", "high"], CoverageField] = Field(default={"low": 2, "high": None})
    """Coverage k of the two RL runs; inf for all tests."""
    graded: bool = False
    """Problems of the size classes in which every coverage asks for something else, and statements do not
    tell which (`cef_env/problems/builtin/compose.py`)."""
    warm_start: str | None = None
    """Checkpoint directory that RL starts from, relative to the run directory; null trains one."""
    variants: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9 ]*$")], VariantConfig] = Field(default={})
    """Further RL runs by name."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of training: auto is bfloat16 autocast on a GPU that has it, else float32. Weights and the
    sweep are float32."""
    model: ModelConfig = ModelConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    sft: SFTConfig = SFTConfig()
    rl: RLConfig = RLConfig()
    sweep: SweepConfig = SweepConfig()

    @property
    def most_tokens(self) -> int:
        """Token budget of an episode."""
        return self.max_new_tokens * (1 if self.setting == "reasoning" else self.max_turns)

    @field_validator("coverages")
    @classmethod
    def _both_and_ordered(cls, value: dict[str, int | None]) -> dict[str, int | None]:
        if set(value) != {"low", "high"}:
            raise ValueError("coverages needs both low and high")
        low, high = value["low"], value["high"]
        if low is None or (high is not None and low >= high):
            raise ValueError(f"coverage low ({low}) must be smaller than high ({high})")
        return value

    @model_validator(mode="after")
    def _repair_is_single_turn(self) -> Self:
        if self.setting != "reasoning" and self.sft.repair_share:
            raise ValueError(f"sft.repair_share is for setting reasoning; {self.setting} shows no failures")
        return self

    @model_validator(mode="after")
    def _reward_is_known(self) -> Self:
        for name, (coverage, rl) in self.runs().items():
            if rl.reward.levels is not None and not rl.reward.within(coverage)[0]:
                raise ValueError(f"rl.reward.levels: none is within coverage {name} ({coverage})")
            if rl.repair_share and self.setting != "reasoning":
                raise ValueError(f"rl.repair_share: setting {self.setting} shows no failures; use reasoning")
        return self

    def runs(self) -> dict[str, tuple[int | None, RLConfig]]:
        """Every RL run: low and high, then the variants; coverage and configuration of each."""
        found: dict[str, tuple[int | None, RLConfig]] = {
            name: (coverage, self.rl) for name, coverage in self.coverages.items()
        }
        for name, variant in self.variants.items():
            if name in found:
                raise ValueError(f"variants: {name!r} is the name of an endpoint; choose another")
            data = layered(self.rl.model_dump(mode="json"), variant.rl)
            try:
                found[name] = variant.coverage, RLConfig.model_validate(data)
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"])
                raise ValueError(f"variants.{name}.rl.{field}: {first['msg']}") from error
        return found


def presets() -> list[str]:
    """The names of the presets that come with the package."""
    return examples(FOLDER)


def load_config(name_or_path: str, seed: int | None = None, setting: str | None = None) -> Config:
    """A preset by name, or a YAML file by path; `UserError` names the field that is wrong.

    `seed` and `setting` go before those of the file; what it has for a setting, under `settings`, before what
    it has for all.
    """
    data = read_config(name_or_path, FOLDER)
    if seed is not None:
        data["seed"] = seed
    if setting is not None:
        data["setting"] = setting
    own = data.pop("settings", None) or {}
    if not isinstance(own, dict) or not own.keys() <= set(get_args(Setting)):
        raise UserError(f"config {name_or_path!r}, key settings: give sizes by setting: {SETTINGS}")
    return validated(Config, layered(data, own.get(data.get("setting")) or {}), name_or_path)
