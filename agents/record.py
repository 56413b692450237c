"""Plays a whole problem source and keeps the trajectories, so that a kill loses no finished episode.

A folder holds `rollout.json` (what is played), `trajectories.jsonl` (in the order of the source, made when
everything was tried), `faults.jsonl` (episodes that the instrument failed) and, until all have ended,
`journal.jsonl` (see `journal.py`). The same command goes on where it was. Command: `cef rollout`.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cef_env.agents import make_agent
from cef_env.agents.base import Agent, BatchAgent, Trajectory
from cef_env.agents.environments import env_class, make_env
from cef_env.agents.episode import Fault, Job, Limits
from cef_env.agents.journal import Journal, Key, json_lines
from cef_env.agents.player import Player
from cef_env.agents.trajectories import Row, read_rows, row_of
from cef_env.envs.repair import RepairEnv, failing
from cef_env.errors import InstrumentError, UserError
from cef_env.files import exclusive, read_json, write_atomic, write_json
from cef_env.problems import ProblemSet, load, parse_coverage

Progress = Callable[[int, int, str], None]
"""Called with (episodes done, episodes in all, note)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is played: a folder goes on only with the same."""

    env: str
    agent: str
    problems: str = "builtin"
    coverage: str = "inf"
    env_options: Mapping[str, Any] = field(default_factory=dict)
    agent_options: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1
    """Episodes per problem."""
    limit: int | None = None
    """The first problems of the source only."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("samples", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name}={value}: use 1 or more")
        if self.seed < 0:
            raise UserError(f"seed={self.seed}: use 0 or more")
        if self.agent.startswith("scripted:") and self.agent_options:
            raise UserError(f"agent {self.agent!r} is not sampled: leave out {', '.join(self.agent_options)}")


@dataclass(frozen=True, slots=True)
class Summary:
    """What a folder holds."""

    outcomes: dict[str, int]
    """Episodes by outcome; the most frequent first."""
    reward: float
    """Mean over the episodes."""
    turns: float
    """Mean number of messages of the agent."""
    faults: int
    """Episodes that the instrument failed: in none of the numbers above."""
    dropped: int
    """Problems without a test under the coverage, or with no failed program to repair."""


def record(settings: Settings, limits: Limits, out: Path, progress: Progress = lambda *_: None) -> Summary:
    """Plays what the folder `out` does not hold yet; faults of an earlier run are tried again.

    Raises `UserError` when the folder holds something else, or another process is at work there.
    """
    env_class(settings.env)
    problems = load(settings.problems)
    coverage = parse_coverage(settings.coverage)
    ids = [id_ for id_ in problems.ids if coverage is None or problems.smallest_level(id_) <= coverage]
    if issubclass(env_class(settings.env), RepairEnv):
        ids = [id_ for id_ in ids if failing(problems.get(id_))]
    dropped = len(problems) - len(ids)
    if not ids:
        raise UserError(
            f"problems={settings.problems!r}: none of its problems can be played in {settings.env}"
        )
    ids = ids[: settings.limit]
    make = partial(make_env, settings.env, problems, settings.coverage, settings.env_options)
    make().close()  # mistakes in what was asked for show before anything is written
    agent = make_agent(settings.agent, problems, **settings.agent_options)
    out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / ".lock", f"folder {str(out)!r}"):
        _same_settings(out, _config(settings, problems, agent, limits))
        plan = [(id_, sample) for id_ in ids for sample in range(settings.samples)]
        if (out / "journal.jsonl").exists() or not (out / "trajectories.jsonl").exists():
            with Journal(out / "journal.jsonl", isinstance(agent, BatchAgent)) as journal:
                with Player(make, agent, settings.seed, limits) as player:
                    _play(player, journal, plan, progress)
                _finish(out, journal, plan)
        summary = summarise(out, dropped)
        if (held := sum(summary.outcomes.values()) + summary.faults) != len(plan):
            raise UserError(
                f"{out / 'trajectories.jsonl'} is damaged: it holds {held} of {len(plan)} episodes; "
                "delete it to play them again"
            )
        return summary


def _config(settings: Settings, problems: ProblemSet, agent: Agent, limits: Limits) -> dict[str, Any]:
    """What must not change. A batching agent is asked for `concurrency` episodes at once, and its replies
    may depend on their company."""
    ids = hashlib.sha256("\n".join(problems.ids).encode()).hexdigest()
    wave = limits.concurrency if isinstance(agent, BatchAgent) else None
    return json.loads(json.dumps(asdict(settings))) | {"problem_ids_sha256": ids, "concurrency": wave}


def _same_settings(out: Path, config: dict[str, Any]) -> None:
    path = out / "rollout.json"
    if not path.exists():
        if (out / "trajectories.jsonl").exists() or (out / "journal.jsonl").exists():
            raise UserError(f"{out} holds trajectories of something else; choose another --out")
        write_json(path, config)
        return
    before = read_json(path, "delete the folder to start again")
    if not isinstance(before, dict):
        raise UserError(f"{path} does not say what was played; delete the folder to start again")
    for name, value in config.items():
        if before.get(name) != value:
            raise UserError(
                f"{out} was begun with {name}={json.dumps(before.get(name))}, not {json.dumps(value)}; "
                "give the same again, or another --out"
            )


def _play(player: Player, journal: Journal, plan: list[Key], progress: Progress) -> None:
    """Plays all episodes of the plan without a trajectory; those of one wave go to the journal together."""
    size = player.limits.concurrency if isinstance(player.agent, BatchAgent) else len(plan)
    rows: list[Row] = []

    def note() -> None:
        failed = f"{len(journal.faults)} faults" if journal.faults else ""
        progress(len(journal.done) + len(journal.faults), len(plan), failed)

    def keep(row: Row) -> None:
        rows.append(row)
        if not isinstance(player.agent, BatchAgent):
            journal.append(rows)
            rows.clear()
            note()

    def on_end(index: int, trajectory: Trajectory) -> None:
        keep(row_of(trajectory, plan[index][1]))

    def on_fault(fault: Fault, error: InstrumentError) -> None:
        problem_id, sample = plan[fault.index]
        keep({"problem_id": problem_id, "sample": sample} | asdict(fault))

    # What the instrument failed before comes last: whatever else there is, is played as without a kill.
    fresh = [i for i, key in enumerate(plan) if key not in journal.done and key not in journal.faults]
    failed = [i for i, key in enumerate(plan) if key in journal.faults]
    waves: dict[tuple[int, int], list[Job]] = {}
    for again, indices in enumerate((fresh, failed)):
        for index in indices:
            waves.setdefault((again, index // max(1, size)), []).append(Job(index, plan[index][0]))
    note()
    for jobs in waves.values():
        player.play(jobs, on_end, on_fault)
        if rows:
            journal.append(rows)
            rows.clear()
            note()


def _finish(out: Path, journal: Journal, plan: list[Key]) -> None:
    """Everything was tried: the files that people read."""
    journal.export(out / "trajectories.jsonl", plan)
    if journal.faults:
        faults = [journal.faults[key] for key in plan if key in journal.faults]
        write_atomic(out / "faults.jsonl", json_lines(faults))
        return
    (out / "faults.jsonl").unlink(missing_ok=True)
    (out / "journal.jsonl").unlink()


def summarise(out: Path, dropped: int = 0) -> Summary:
    """The numbers of a folder."""
    outcomes: dict[str, int] = {}
    reward, turns, faults = 0.0, 0, 0
    for row in read_rows(out / "trajectories.jsonl"):
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
        reward += row["reward"]
        turns += sum(message["role"] == "assistant" for message in row["messages"])
    if (out / "faults.jsonl").exists():
        faults = len((out / "faults.jsonl").read_text().splitlines())
    total = sum(outcomes.values())
    ordered = dict(sorted(outcomes.items(), key=lambda item: -item[1]))
    mean = reward / total if total else float("nan")
    return Summary(ordered, mean, turns / total if total else float("nan"), faults, dropped)
