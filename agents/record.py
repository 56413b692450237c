"""Plays a whole problem source and keeps the trajectories as JSON lines. Command: `cef rollout`."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import gymnasium as gym

from cef_env.agents import make_agent, rollout
from cef_env.errors import UserError
from cef_env.files import write_atomic
from cef_env.judge import Outcome
from cef_env.problems import load, parse_coverage


def record_rollouts(
    env_id: str, agent_spec: str, source: str, coverage: str, seed: int, out: Path
) -> dict[Outcome, int]:
    """One episode per problem; writes `out/trajectories.jsonl` when all have ended, returns the counts."""
    if (out / "trajectories.jsonl").exists():
        raise UserError(f"{out} holds trajectories already; choose another --out, or delete them")
    problems = load(source)
    agent = make_agent(agent_spec, problems)
    try:
        envs = [
            gym.make(env_id, disable_env_checker=True, coverage=parse_coverage(coverage), problems=problems)
            for _ in problems.ids
        ]
    except gym.error.UnregisteredEnv as error:
        raise UserError(f"environment {env_id!r} is unknown; use cef/Reasoning-v0") from error
    trajectories = rollout(envs, agent, problems.ids, seed)
    out.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(asdict(trajectory)) + "\n" for trajectory in trajectories]
    write_atomic(out / "trajectories.jsonl", "".join(lines))
    return dict(Counter(trajectory.outcome for trajectory in trajectories).most_common())
