"""Draws and judges the answers of a plan: members in turn, chunk by chunk, into the folder of a sweep.

While one chunk is judged, the next is sampled: the agent has a lock, the judge has processes of its own.
Each chunk is drawn from (seed, chunk), and chunks are kept in the plan's order, so a killed sweep continues
to the same file. Does not compute statistics (`counts.py` and what builds on it) and makes no agent
(`members.py`).
"""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

import gymnasium as gym

from cef_env.agents import Agent, BatchAgent, Message, Reply, Trajectory, rollout
from cef_env.envs.base import CodingEnv
from cef_env.errors import UserError
from cef_env.eval.plan import SAMPLES, Plan, claim
from cef_env.eval.programs import Judgement, Program, ProgramStore
from cef_env.eval.records import Member, Sample
from cef_env.eval.store import Chunk, SampleStore
from cef_env.judge import Judge
from cef_env.problems import Problem, ProblemSet

CHUNKS_IN_FLIGHT = 2
"""One is sampled while one is judged."""

NONE: Mapping[str, Any] = MappingProxyType({})

Progress = Callable[[int, int, str], None]
"""Called with (samples done, samples in all, note)."""


class LockedAgent:
    """Lets several threads share one agent, one batch at a time."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._lock = Lock()

    def act(self, messages: list[Message]) -> str:
        with self._lock:
            return self._agent.act(messages)

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        with self._lock:
            if isinstance(self._agent, BatchAgent):
                return self._agent.act_batch(conversations, seed)
            return [Reply(self._agent.act(messages)) for messages in conversations]


@dataclass(frozen=True)
class Drawn:
    """The answers of one chunk."""

    samples: list[Sample]
    programs: dict[str, Program]
    """By sha256."""
    judgements: list[Judgement]


def chunk_seed(seed: int, chunk: Chunk) -> int:
    """A 63-bit seed from the sweep's seed and what the chunk is."""
    digest = hashlib.sha256(json.dumps([seed, chunk.seed]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def sweep(
    plan: Plan,
    folder: Path,
    agent_of: Callable[[Member], Agent],
    problems: Mapping[str, ProblemSet],
    judge: Judge,
    seed: int,
    progress: Progress,
    env_id: str = "cef/Reasoning-v0",
    env_options: Mapping[str, Any] = NONE,
) -> None:
    """Draws every chunk of `plan` that `folder` does not hold yet.

    Args:
        agent_of: makes or prepares the agent of a member; called once per member with work left, and the
            agent of the member before is not used any more.
        problems: the problem set of each split of the plan.
        env_id: a registered environment; one episode per answer, judged on the full suite.
        env_options: its arguments besides coverage, problems and judge.

    Raises `UserError` when the folder belongs to another plan. An `InstrumentError` ends the sweep; what was
    complete stays.
    """
    claim(folder, plan)
    chunks = plan.chunks()
    total = sum(chunk.size for chunk in chunks)
    with (
        SampleStore(folder / SAMPLES) as store,
        closing(ProgramStore(folder)) as programs,
        ThreadPoolExecutor(CHUNKS_IN_FLIGHT) as threads,
    ):
        done = sum(chunk.size for chunk in store.done)
        progress(done, total, "")
        left = [chunk for chunk in chunks if chunk not in store.done]
        for member, group in groupby(left, lambda chunk: chunk.member):
            agent = LockedAgent(agent_of(member))

            def work(chunk: Chunk, agent: LockedAgent = agent) -> Drawn:
                chosen = chunk_seed(seed, chunk)
                return draw(chunk, problems[chunk.split], agent, judge, chosen, env_id, env_options)

            for chunk, drawn in _in_flight(threads, group, work):
                programs.append(drawn.programs, drawn.judgements)
                store.append(chunk, drawn.samples)
                done += chunk.size
                progress(done, total, member.name)


def _in_flight(
    threads: ThreadPoolExecutor, chunks: Iterable[Chunk], work: Callable[[Chunk], Drawn]
) -> Iterator[tuple[Chunk, Drawn]]:
    """(chunk, answers) in order, with at most CHUNKS_IN_FLIGHT being worked on."""
    running: deque[tuple[Chunk, Future[Drawn]]] = deque()
    waiting = iter(chunks)
    try:
        while True:
            for chunk in waiting:
                running.append((chunk, threads.submit(work, chunk)))
                if len(running) == CHUNKS_IN_FLIGHT:
                    break
            if not running:
                return
            chunk, future = running.popleft()
            yield chunk, future.result()
    finally:
        wait([future for _, future in running])  # after an error nobody may go on using the agent


def draw(
    chunk: Chunk,
    problems: ProblemSet,
    agent: Agent,
    judge: Judge,
    seed: int,
    env_id: str = "cef/Reasoning-v0",
    env_options: Mapping[str, Any] = NONE,
) -> Drawn:
    """The answers of one chunk: one episode each, on the full suite."""
    cells = [(id_, index) for id_ in chunk.problem_ids for index in range(chunk.start, chunk.stop)]
    envs = [make_env(env_id, problems, judge, env_options) for _ in cells]
    try:
        trajectories = rollout(envs, agent, [id_ for id_, _ in cells], seed)
        drawn = Drawn([], {}, [])
        for trajectory, env, (id_, index) in zip(trajectories, envs, cells, strict=True):
            played = _coding(env)
            sha256 = None
            if played.program is not None:
                language = getattr(played, "language", "") or "python"
                sha256 = hash_of(played.program)
                drawn.programs[sha256] = Program(sha256, played.program, language)
                if played.result is not None:
                    drawn.judgements.append(Judgement.of(sha256, played.result))
            drawn.samples.append(to_sample(trajectory, chunk, index, problems.get(id_), sha256))
        return drawn
    finally:
        for env in envs:
            env.close()


def hash_of(program: str) -> str:
    """Names a program; lone surrogates, which some answers hold, are allowed."""
    return hashlib.sha256(program.encode("utf-8", "surrogatepass")).hexdigest()


def make_env(
    env_id: str, problems: ProblemSet, judge: Judge, options: Mapping[str, Any] = NONE
) -> gym.Env[str, str]:
    """One environment of a sweep; `UserError` when the id is unknown or no setting of this project."""
    try:
        env = gym.make(
            env_id, disable_env_checker=True, coverage=None, problems=problems, judge=judge, **options
        )
    except (gym.error.Error, ImportError) as error:
        raise UserError(f"environment {env_id!r} is unknown; use cef/Reasoning-v0") from error
    except TypeError as error:  # another project's, which takes no judge
        raise UserError(
            f"environment {env_id!r} takes no coverage, problems and judge; use cef/Reasoning-v0"
        ) from error
    _coding(env)
    return env


def _coding(env: gym.Env[str, str]) -> CodingEnv:
    inner = env.unwrapped
    if not isinstance(inner, CodingEnv):
        raise UserError(
            f"environment {env.spec and env.spec.id!r} is no cef environment; use cef/Reasoning-v0"
        )
    return inner


def to_sample(
    trajectory: Trajectory, chunk: Chunk, index: int, problem: Problem, sha256: str | None
) -> Sample:
    """The row that statistics need of an episode."""
    return Sample(
        problem_id=trajectory.problem_id,
        split=chunk.split,
        alpha=chunk.alpha,
        index=index,
        outcome=trajectory.outcome,
        coverage_reached=int(trajectory.info["coverage_reached"]),
        format_error=trajectory.info["format_error"] or None,
        compile_error=bool(trajectory.info["compile_error"]),
        program_sha256=sha256,
        tokens=sum(len(reply.token_ids) for reply in trajectory.replies),
        tags=problem.tags,
        label=chunk.label,
        difficulty=problem.difficulty,
    )
