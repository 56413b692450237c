"""Episodes that the scripted policy really played, for the warm start of tool use and agentic coding.

The episodes are played once, in the real environments with real sandboxes, and kept; training draws from them
again and again. A kill loses no finished episode. The policy is in `scripted.py`.
"""

import random
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from cef_env.agents.base import Message, Trajectory
from cef_env.agents.episode import Fault, Job, Limits
from cef_env.agents.journal import Journal
from cef_env.agents.player import Player
from cef_env.agents.trajectories import read_rows, row_of
from cef_env.errors import InstrumentError
from cef_env.judge import Judge
from cef_env.training.config import Config
from cef_env.training.data import pad_sequences
from cef_env.training.scripted import TOOLS, ScriptedPolicy, fixed_parts
from cef_env.training.settings import SAMPLES, SIGNS, make_env, problems_of

POOL_SEED = 7_919
"""Keeps the problems of the pool apart from those of RL, which are drawn with the run's own seed."""
JUDGED = 1
"""Coverage k at which the answers are judged: their outcome is not used."""
RETRIES = 2
"""Of an episode that the instrument failed."""
Conversation = list[Message]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A conversation as the sampler would have it."""

    tokens: tuple[int, ...]
    mask: tuple[int, ...]
    """1 on what the assistant says and on its end tokens."""


def trajectory_pool(config: Config, folder: Path, judge: Judge | None, progress: Any) -> list[Conversation]:
    """`sft.episodes` episodes on problems of the train split, kept in `folder/trajectories.jsonl`.

    `progress` is called with (done, total, note). Raises `UserError` when that file is damaged.
    """
    path = folder / "trajectories.jsonl"
    if not path.exists():
        with nullcontext(judge) if judge is not None else Judge() as instrument:
            _play(config, folder, instrument, progress)
    return [row["messages"] for row in read_rows(path)]


def _play(config: Config, folder: Path, judge: Judge, progress: Any) -> None:
    problems = problems_of(config, "train", config.sft.episodes, config.seed + POOL_SEED)
    policy = ScriptedPolicy(config, problems.ids, config.seed)
    plan = [(id_, 0) for id_ in problems.ids]
    make = partial(make_env, config, problems, judge, JUDGED)
    limits = Limits(concurrency=2 * judge.workers, retries=RETRIES)
    journal_path = folder / "journal.jsonl"
    with Journal(journal_path, waves=False) as journal, Player(make, policy, config.seed, limits) as player:

        def on_end(index: int, trajectory: Trajectory) -> None:
            journal.append([row_of(trajectory)])
            progress(len(journal.done), len(plan), "episodes")

        def on_fault(fault: Fault, error: InstrumentError) -> None:
            raise error

        jobs = [Job(index, key[0]) for index, key in enumerate(plan) if key not in journal.done]
        player.play(jobs, on_end, on_fault)
        journal.export(folder / "trajectories.jsonl", plan)
    journal_path.unlink()


def tool_tokens(setting: str, pool: Sequence[Conversation]) -> list[str]:
    """Texts that are to be one token each: what is the same around every program and in every first message,
    lines of programs as JSON holds them, and lines that tools answer."""
    parts = fixed_parts(setting)
    found = dict.fromkeys([*parts, SAMPLES, *SIGNS, "assistant\n", "user\n"])
    found[TOOLS[1:] + pool[0][0]["content"].partition(TOOLS)[2]] = None
    for message in (message for conversation in pool for message in conversation[1:]):
        text = message["content"]
        if message["role"] == "user":
            lines = text.splitlines(keepends=True)
        else:
            for part in parts:
                text = text.replace(part, "\0")
            calls = [piece for piece in text.split("\0") if "\\n" in piece]
            lines = [f"{line}\\n" for piece in calls for line in piece.removesuffix("\\n").split("\\n")]
        found.update(dict.fromkeys(lines))
    return list(found)


def encode(tokenizer: Any, conversation: Conversation) -> Encoded:
    """The ids of a conversation, turn by turn as a sampler is fed and samples them."""
    tokens: list[int] = []
    mask: list[int] = []

    def add(text: str, said: int) -> None:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens.extend(ids)
        mask.extend([said] * len(ids))

    before = ""
    for index, message in enumerate(conversation):
        if message["role"] == "assistant":
            prompt = tokenizer.apply_chat_template(
                conversation[:index], tokenize=False, add_generation_prompt=True
            )
            add(prompt.removeprefix(before), 0)
            said = message["content"] + tokenizer.eos_token
            add(said, 1)
            before = prompt + said
    return Encoded(tuple(tokens), tuple(mask))


def trajectory_batch(
    pool: Sequence[Encoded], size: int, rng: random.Random, pad: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, mask) of `size` conversations from the pool, the shortest first; see `pad_sequences`."""
    chosen = sorted((rng.choice(pool) for _ in range(size)), key=lambda encoded: len(encoded.tokens))
    return pad_sequences([c.tokens for c in chosen], [c.mask for c in chosen], pad)
