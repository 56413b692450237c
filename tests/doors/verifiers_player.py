"""Plays episodes by verifiers' own taskset and environment for OpenEnv; the agent's messages are scripted.

    python verifiers_player.py URL '[{"problem_id": ...}, ...]' '[["message", ...], ...]'

Prints, for each task, what verifiers records as reward, and each payload that it shows to the agent. Runs in
an environment of its own (see the Makefile): verifiers and OpenEnv 0.10 need different versions of MCP.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from verifiers.v1.tasksets.openenv import OpenEnvConfig, OpenEnvEnv, OpenEnvEnvConfig


class Player:
    """Stands for an agent with a model."""

    def __init__(self, messages: list[str]) -> None:
        self.messages = messages
        self.shown: list[Any] = []
        self.rewards: dict[str, float] = {}
        self.trace = SimpleNamespace(record_reward=self.rewards.__setitem__)

    @asynccontextmanager
    async def interaction(self, _: object) -> AsyncIterator["Player"]:
        yield self

    async def turn(self, payload: str) -> SimpleNamespace:
        self.shown.append(json.loads(payload))
        return SimpleNamespace(terminated=False, last_reply=self.messages.pop(0))


async def main(url: str, resets: list[dict[str, Any]], messages: list[list[str]]) -> list[Any]:
    config = OpenEnvConfig(id="openenv", base_url=url, resets=resets)
    env = OpenEnvEnv(OpenEnvEnvConfig(taskset=config))
    players = [Player(one) for one in messages]
    for task, player in zip(env.taskset.load(), players, strict=True):
        await env.run(task, SimpleNamespace(player=player))
    return [[player.rewards, player.shown] for player in players]


print(json.dumps(asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])))))
