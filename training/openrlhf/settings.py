"""What the agent on the cluster is told: which environment, which reward, which judge.

Written beside the agent file as `agent.json` and read there. Which problem an episode is about, and at which
coverage, stands in the label of its prompt (see `prompts.py`), so that one agent serves training at any
coverage and evaluation.
"""

import inspect
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError, field_validator, model_validator

from cef_env.errors import UserError
from cef_env.problems import Coverage, parse_coverage
from cef_env.training.config import CoverageField, PositiveRate

IDS = {
    "reasoning": "cef/Reasoning-v0",
    "tool_use": "cef/ToolUse-v0",
    "agentic": "cef/Agentic-v0",
    "repair": "cef/Repair-v0",
}
OWN = ("coverage", "problems", "judge", "render_mode")
"""Arguments of environments that come from elsewhere."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EnvironmentConfig(_Strict):
    """One of the settings of the paper."""

    setting: Literal["reasoning", "tool_use", "agentic", "repair"]
    """Which environment."""
    arguments: dict[str, Any] = {}
    """More arguments of its constructor, such as `max_turns`; see docs/environments."""
    turn_tokens: PositiveInt | None = None
    """Tokens of one message of the model; null: all that the episode has left."""
    judged_coverage: CoverageField | Literal["run"] = "run"
    """Which tests are run in training: those of the run's coverage, or more, which costs time and tells the
    outcome over more tests while the reward stays R_k."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        import gymnasium as gym

        import cef_env  # noqa: F401 (registers them)

        creator = gym.envs.registration.load_env_creator(str(gym.spec(IDS[self.setting]).entry_point))
        known = [name for name in inspect.signature(creator).parameters if name not in OWN]
        for name in self.arguments:
            if name not in known:
                raise ValueError(f"arguments.{name} is no argument of {IDS[self.setting]}; it has {known}")
        return self

    @field_validator("judged_coverage", mode="before")
    @classmethod
    def _run_is_a_word(cls, value: object) -> object:
        return value if value == "run" else parse_coverage(value)

    def judged(self, coverage: Coverage) -> Coverage:
        """The coverage that is judged in a run at `coverage`."""
        return coverage if self.judged_coverage == "run" else self.judged_coverage


class RewardConfig(_Strict):
    """What an episode of training is worth (`cef_env.rewards`). Evaluation always uses R_k."""

    kind: Literal["coverage", "discrete", "continuous"] = "coverage"
    """R_k, or static shaping."""
    levels: tuple[CoverageField, ...] | None = None
    """Of shaping; `discrete` needs them."""
    weights: tuple[PositiveRate, ...] | None = None
    """One for each level; by default equal."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.kind == "coverage" and (self.levels is not None or self.weights is not None):
            raise ValueError("levels and weights belong to kind discrete or continuous")
        if self.kind == "discrete" and not self.levels:
            raise ValueError("kind discrete needs levels, such as [2, 4, inf]")
        if self.weights is not None and len(self.weights) != len(self.levels or ()):
            raise ValueError(f"{len(self.levels or ())} levels but {len(self.weights)} weights; one for each")
        order = [float("inf") if level is None else level for level in self.levels or ()]
        if order != sorted(set(order)):
            raise ValueError("levels: write each once, in ascending order")
        if self.kind == "continuous" and None in (self.levels or ()):
            raise ValueError("levels: inf is no length of a test; use whole numbers")
        return self

    @property
    def most(self) -> float:
        """The largest reward of an episode."""
        return sum(self.weights) if self.kind == "discrete" and self.weights else 1.0

    def require(self, judged: Coverage, field: str) -> None:
        """`ValueError` when a level needs tests that a run at `judged` does not run."""
        for level in self.levels or ():
            if judged is not None and (level is None or level > judged):
                raise ValueError(
                    f"reward.levels: level {'inf' if level is None else level} needs tests that {field} = "
                    f"{judged} does not run; set environment.judged_coverage"
                )


class JudgeConfig(_Strict):
    """Where programs are judged, and how."""

    backend: Literal["ray", "local"] = "ray"
    """On all nodes of the cluster, or only on the engine's own."""
    workers: PositiveInt | None = None
    """Programs at once on one node; by default twice its CPUs."""
    sandbox: str = "auto"
    """The isolation tier, or auto."""
    packages: tuple[str, ...] = ()
    """Third-party packages that programs may import."""
    speed_factor: PositiveRate | None = None
    """Multiplies every time limit."""


class AgentSettings(_Strict):
    """The content of `agent.json`."""

    environment: EnvironmentConfig
    reward: RewardConfig = RewardConfig()
    judge: JudgeConfig = JudgeConfig()

    @property
    def repair(self) -> "AgentSettings":
        """The same for episodes that begin with a failed program."""
        one = self.environment
        if one.setting == "repair":
            return self
        shared = {name: value for name, value in one.arguments.items() if name == "exhaustive"}
        environment = one.model_copy(update={"setting": "repair", "arguments": shared})
        return self.model_copy(update={"environment": environment})

    @classmethod
    def read(cls, path: Path) -> "AgentSettings":
        """From a file; `UserError` when it is missing or wrong."""
        try:
            return cls.model_validate_json(path.read_text())
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; `cef openrlhf command --out` writes it") from error
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"{path}, key {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
