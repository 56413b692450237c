"""A configuration and a model that are small enough for tests."""

from typing import Any

from cef_env.agents import Trajectory
from cef_env.agents.base import Reply
from cef_env.agents.transformers_agent import sample
from cef_env.judge import Outcome
from cef_env.training import load_config
from cef_env.training.config import Config


def quiet(done: int, total: int, note: str) -> None:
    pass


def tiny(**sections: dict[str, Any]) -> Config:
    data = load_config("smoke").model_dump()
    data["sft"] |= {"steps": 4, "batch_size": 4, "save_every": 1}
    data["rl"] |= {"steps": 2, "problems_per_step": 2, "group_size": 3, "save_every": 1}
    data["tokenizer"] |= {"problems": 100}
    data["max_new_tokens"] = 24
    for section, values in sections.items():
        data[section] |= values
    return Config.model_validate(data)


def trajectories_of(model: Any, rewards: list[float], seed: int = 3) -> list[Trajectory]:
    """Sampled answers to one short prompt, with these rewards."""
    prompts = [[5, 6, 7]] * len(rewards)
    tokens, logprobs = sample(model, prompts, seed, 2, 6)
    return [
        Trajectory("p", (), reward, Outcome.CORRECT, replies=(Reply("", tuple(p), tuple(t), tuple(lp)),))
        for p, t, lp, reward in zip(prompts, tokens, logprobs, rewards, strict=True)
    ]
