"""A tiny model built from nothing, and a game of several turns that needs no judge."""

from typing import Any

import gymnasium as gym
import pytest
import torch

from cef_env.envs import Unicode
from cef_env.training import load_config
from cef_env.training.config import Config
from cef_env.training.model import build_model, train_tokenizer


@pytest.fixture(scope="session")
def tiny() -> tuple[Any, Any]:
    """(model, tokenizer): untrained, so that it says things that nobody would tokenize as it does."""
    torch.set_num_threads(1)
    data = load_config("smoke").model_dump()
    data["tokenizer"] |= {"problems": 60}
    data["model"] |= {"layers": 1, "hidden_size": 32, "intermediate_size": 32, "heads": 2, "kv_heads": 2}
    config = Config.model_validate(data)
    tokenizer = train_tokenizer(config.tokenizer, config.sft, seed=0)
    return build_model(config.model, tokenizer, seed=0).eval(), tokenizer


class Talk(gym.Env[str, str]):
    """Asks for more until `turns` answers were given."""

    def __init__(self, turns: int) -> None:
        self.observation_space = self.action_space = Unicode()
        self.turns = turns
        self.heard: list[str] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.heard = []
        return "Say something.\n", {"problem_id": "talk"}

    def step(self, action: str) -> Any:
        self.heard.append(action)
        over = len(self.heard) == self.turns
        info = {"problem_id": "talk", "outcome": "format_error"}
        return f"You said {len(action)} characters. More!\n", 0.0, over, False, info
