"""The configuration of a launch with OpenRLHF: one YAML file, as pydantic models.

Unknown keys are errors, and what cannot work together is refused here, before anything starts. Examples lie
in `training/configs/openrlhf/`. Does not write command lines (see `launch.py`).
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)

from cef_env.training.config import CoverageField
from cef_env.training.fields import PositiveRate, ProperShare, Rate, Strict
from cef_env.training.openrlhf import fields
from cef_env.training.openrlhf.settings import AgentSettings, EnvironmentConfig, JudgeConfig, RewardConfig
from cef_env.training.reading import examples, read_config, validated

FOLDER = "configs/openrlhf"
"""Of the examples, in `training`."""

Value = bool | int | float | str | list[int | float | str] | None
"""Of a field of OpenRLHF: true is a switch, null or false leaves a field out, a list has several values."""


def _absolute(path: str) -> str:
    if not path.startswith("/") or "," in path or "@" in path:
        raise ValueError("use an absolute path that all nodes share, without ',' and '@'")
    return path.rstrip("/")


SharedPath = Annotated[str, AfterValidator(_absolute)]


class ProblemsConfig(Strict):
    """Where problems come from; the nodes that run engines must be able to read the same sources."""

    train: str
    """Source of the training prompts (`cef_env.problems.load`)."""
    eval: str | None = None
    """Source of the prompts that are evaluated during training; null evaluates nothing."""
    eval_count: PositiveInt | None = None
    """Only the first so many problems of `eval`."""


class ClusterConfig(Strict):
    """GPUs, and who has them. `engines` x `tensor_parallel` is what vLLM gets."""

    nodes: PositiveInt
    """Nodes of the Ray cluster."""
    gpus_per_node: PositiveInt = 8
    """GPUs of each."""
    engines: PositiveInt
    """vLLM engines; each plays its own share of the episodes."""
    tensor_parallel: PositiveInt = 1
    """GPUs of one engine; they must lie in one node."""
    train_nodes: PositiveInt | None = None
    """Nodes that train, beside those of the engines (asynchronous); null: all GPUs do both in turn."""
    hostfile: str | None = None
    """DeepSpeed's list of hosts, for the warm start on several nodes."""
    address: str | None = None
    """Where `ray job submit` finds the cluster (http://HOST:8265); null leaves it to RAY_ADDRESS."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        total, engines = self.nodes * self.gpus_per_node, self.engines * self.tensor_parallel
        used = f"engines {self.engines} x tensor_parallel {self.tensor_parallel} = {engines} GPUs"
        have = f"nodes {self.nodes} x gpus_per_node {self.gpus_per_node} = {total}"
        if self.gpus_per_node % self.tensor_parallel:
            raise ValueError(
                f"tensor_parallel {self.tensor_parallel} must divide gpus_per_node {self.gpus_per_node}: an "
                "engine lies in one node"
            )
        if self.train_nodes is None and engines != total:
            raise ValueError(f"{used}, but {have}; without train_nodes the two must be equal")
        if self.train_nodes is not None and engines + self.train_nodes * self.gpus_per_node != total:
            raise ValueError(
                f"{used}, and train_nodes {self.train_nodes} x gpus_per_node {self.gpus_per_node} = "
                f"{self.train_nodes * self.gpus_per_node}, but {have}; they must add up to it"
            )
        return self

    @property
    def train_gpus(self) -> int:
        """GPUs of the model that is trained."""
        return (self.train_nodes or self.nodes) * self.gpus_per_node


class RolloutConfig(Strict):
    """What is sampled for one step."""

    prompts: PositiveInt = 64
    """Prompts of a step."""
    samples: Annotated[int, Field(ge=2)] = 8
    """Episodes of each prompt; advantages are normalised among them."""
    max_length: PositiveInt = 16384
    """Tokens of an episode, prompt and tool output included."""
    temperature: PositiveRate = 1.0
    """Of sampling, in training."""
    eval_samples: PositiveInt = 4
    """Episodes of each prompt that is evaluated."""
    eval_temperature: Rate = 0.6
    """Of sampling, in evaluation."""


class RLConfig(Strict):
    """The update, the same at every coverage."""

    estimator: Literal["group_norm", "dr_grpo", "rloo", "reinforce_baseline", "reinforce"] = "group_norm"
    """How advantages are made; group_norm is GRPO."""
    batch_size: PositiveInt = 512
    """Episodes of one optimiser step."""
    epochs: PositiveInt = 1
    """Passes over the prompts."""
    learning_rate: PositiveRate = 1e-6
    """Peak of AdamW's learning rate."""
    kl_coef: Rate = 0.0
    """Weight of the KL divergence from the start, as a loss (k2); 0 leaves the reference model out."""
    clip: tuple[PositiveRate, PositiveRate] = (0.2, 0.27)
    """Lower and upper clip of the probability ratio."""
    dynamic_sampling: bool = True
    """Draw another prompt for one whose episodes all have reward 0, or all 1."""
    repair_share: ProperShare = 0.0
    """Online fixing (reasoning only): this share of the rows draws an answer first and, if it fails, shows
    all samples that answer and how it failed (the prompt of `cef/Repair-v0`), not the problem alone."""
    tokens_per_gpu: PositiveInt = 16384
    """Tokens of one micro-batch on one GPU; at least `rollout.max_length` / `ring_attention`."""
    ring_attention: PositiveInt = 1
    """GPUs that share one long sequence."""
    offload: bool = False
    """Keep AdamW's state in the memory of the host."""
    save_steps: PositiveInt = 20
    """Steps between checkpoints; a run that was stopped continues from the last."""
    seed: NonNegativeInt = 42
    """Of data order and sampling."""


class SFTConfig(Strict):
    """The warm start."""

    dataset: str | None = None
    """JSON lines with `messages` that end with the assistant's; null: written by the export, from programs of
    the train source that are labelled correct (not for the agentic setting)."""
    epochs: PositiveInt = 2
    """Passes over the data."""
    batch_size: PositiveInt = 128
    """Conversations of one optimiser step."""
    max_length: PositiveInt = 8192
    """Tokens of a conversation; longer ones are cut."""
    learning_rate: PositiveRate = 1e-5
    """Peak of AdamW's learning rate."""


class FieldsConfig(Strict):
    """Fields of OpenRLHF's command line that this configuration has no key for, by their dotted names."""

    rl: dict[str, Value] = Field(default_factory=dict)
    """Of `openrlhf.cli.train_ppo_ray`."""
    sft: dict[str, Value] = Field(default_factory=dict)
    """Of `openrlhf.cli.train_sft`."""

    @field_validator("rl", "sft")
    @classmethod
    def _known(cls, value: dict[str, Value], info: Any) -> dict[str, Value]:
        for name, one in value.items():
            fields.require(info.field_name, name, one)
        return value


class LaunchConfig(Strict):
    """A warm start, an RL run at each coverage, and their merge, on one cluster."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    """Of the run, in logs."""
    model: str
    """Where training starts: a folder in Hugging Face format that all nodes share, or a name on the hub."""
    run: SharedPath
    """Folder for everything that training writes: checkpoints, logs, merged models."""
    coverages: Annotated[dict[Literal["low", "high"], CoverageField], Field(min_length=1)]
    """Coverage k of each RL run; inf for all tests. Both are needed for the merge."""
    alphas: str = "-0.5:1.5:0.25"
    """Of the merge, as `cef merge --alpha` takes them."""
    problems: ProblemsConfig
    environment: EnvironmentConfig
    reward: RewardConfig = RewardConfig()
    judge: JudgeConfig = JudgeConfig()
    cluster: ClusterConfig
    rollout: RolloutConfig = RolloutConfig()
    rl: RLConfig = RLConfig()
    sft: SFTConfig | None = None
    """null: RL starts from `model` itself."""
    openrlhf: FieldsConfig = FieldsConfig()

    @field_validator("coverages")
    @classmethod
    def _ordered(cls, value: dict[str, int | None]) -> dict[str, int | None]:
        if len(value) == 2:
            low, high = value["low"], value["high"]
            if low is None or (high is not None and low >= high):
                raise ValueError(f"low ({low or 'inf'}) must be smaller than high ({high or 'inf'})")
        return {name: value[name] for name in ("low", "high") if name in value}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rollout, rl = self.rollout, self.rl
        episodes, processes = rollout.prompts * rollout.samples, self.cluster.train_gpus // rl.ring_attention
        if self.cluster.train_gpus % rl.ring_attention:
            raise ValueError(
                f"rl.ring_attention {rl.ring_attention} must divide {self.cluster.train_gpus} training GPUs"
            )
        if episodes % rl.batch_size or rl.batch_size % processes:
            raise ValueError(
                f"rl.batch_size {rl.batch_size} must divide rollout.prompts x rollout.samples = {episodes} "
                f"and be a multiple of the {processes} training processes"
            )
        if rl.tokens_per_gpu * rl.ring_attention < rollout.max_length:
            raise ValueError(
                f"rl.tokens_per_gpu {rl.tokens_per_gpu} x ring_attention {rl.ring_attention} must be at "
                f"least rollout.max_length {rollout.max_length}"
            )
        if rl.repair_share and self.environment.setting != "reasoning":
            raise ValueError(
                f"rl.repair_share: a repair is one message, as in the reasoning setting; with "
                f"environment.setting {self.environment.setting} it must be 0"
            )
        if rl.repair_share and self.environment.judged_coverage != "run":
            raise ValueError(
                "rl.repair_share: a failure is shown by the tests of the run; leave out "
                "environment.judged_coverage"
            )
        if self.environment.turn_tokens is not None and self.environment.turn_tokens >= rollout.max_length:
            raise ValueError(
                f"environment.turn_tokens {self.environment.turn_tokens} must be under rollout.max_length "
                f"{rollout.max_length}"
            )
        if self.sft is not None:
            if self.sft.dataset is None and self.environment.setting in ("agentic", "repair"):
                raise ValueError(
                    f"sft.dataset: the {self.environment.setting} setting needs conversations of its own; "
                    "name a file, or leave out sft"
                )
            if self.cluster.nodes > 1 and self.cluster.hostfile is None:
                raise ValueError("cluster.hostfile: a warm start on several nodes needs DeepSpeed's hosts")
            world = self.cluster.nodes * self.cluster.gpus_per_node
            if self.sft.batch_size % world:
                raise ValueError(f"sft.batch_size {self.sft.batch_size} must be a multiple of {world} GPUs")
        for name, k in self.coverages.items():
            self.reward.require(self.environment.judged(k), f"coverages.{name}")
        return self

    @property
    def agent(self) -> AgentSettings:
        """What the agent file is told."""
        return AgentSettings(environment=self.environment, reward=self.reward, judge=self.judge)


def presets() -> list[str]:
    """The names of the examples that come with the package."""
    return examples(FOLDER)


def load_launch(name_or_path: str) -> LaunchConfig:
    """An example by name, or a YAML file by path; `UserError` names the field that is wrong."""
    return validated(LaunchConfig, read_config(name_or_path, FOLDER), name_or_path)
