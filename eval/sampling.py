"""Draws and judges the answers of a sweep over alpha: one model in memory, N answers per problem and alpha.

While one chunk is judged, the next is sampled: the model has a lock, the judge has processes of its own.
Each chunk is drawn from (seed, chunk), so a killed sweep continues to the same samples. Does not compute
statistics: see `counts.py` and what builds on it.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from typing import Any

import gymnasium as gym

from cef_env.agents import BatchAgent, Message, Reply, Trajectory, rollout
from cef_env.envs.text import extract_program
from cef_env.eval.records import Sample
from cef_env.eval.store import Chunk, SampleStore, plan_chunks
from cef_env.judge import Judge
from cef_env.merge import apply_alpha, load_state_dict
from cef_env.problems import ProblemSet

CHUNKS_IN_FLIGHT = 2
"""One is sampled while one is judged."""

Progress = Callable[[int, int, str], None]
"""Called with (samples done, samples in all, note)."""


class LockedAgent:
    """Lets several threads share one model, one batch at a time."""

    def __init__(self, agent: BatchAgent) -> None:
        self._agent = agent
        self._lock = Lock()

    def act(self, messages: list[Message]) -> str:
        with self._lock:
            return self._agent.act(messages)

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        with self._lock:
            return self._agent.act_batch(conversations, seed)


def chunk_seed(seed: int, chunk: Chunk) -> int:
    """A 63-bit seed from the sweep's seed and what the chunk is."""
    digest = hashlib.sha256(json.dumps([seed, chunk.seed]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def sweep(
    model: Any,
    agent: BatchAgent,
    low: Path,
    high: Path,
    alphas: Sequence[float],
    problems: Mapping[str, ProblemSet],
    samples: int,
    chunk_problems: int,
    seed: int,
    judge: Judge,
    path: Path,
    progress: Progress,
) -> None:
    """Draws `samples` answers to every problem at every alpha into the store at `path`.

    Args:
        model: the network of `agent`; its weights are set to theta(alpha) in place.
        low, high: checkpoint directories of the endpoints.
        problems: named splits; the names become `Sample.split`.
        chunk_problems: problems per chunk, the unit of sampling and resuming.

    Chunks that the store holds already are skipped. An `InstrumentError` ends the sweep; what was
    complete stays.
    """
    weights = load_state_dict(low), load_state_dict(high)
    locked = LockedAgent(agent)
    total = len(alphas) * samples * sum(len(problem_set) for problem_set in problems.values())
    with SampleStore(path) as store, ThreadPoolExecutor(CHUNKS_IN_FLIGHT) as threads:
        done = sum(len(chunk.cells) for chunk in store.done)
        progress(done, total, "")
        for alpha in alphas:
            chunks = [
                chunk
                for split, problem_set in problems.items()
                for chunk in plan_chunks(split, alpha, problem_set.ids, samples, chunk_problems, samples)
                if chunk not in store.done
            ]
            if not chunks:
                continue
            apply_alpha(model, *weights, alpha)
            for chunk, drawn in _in_flight(
                threads, chunks, lambda c: draw(c, problems[c.split], locked, judge, chunk_seed(seed, c))
            ):
                store.append(chunk, drawn)
                done += len(drawn)
                progress(done, total, f"alpha {alpha:g}")


def _in_flight(
    threads: ThreadPoolExecutor, chunks: Sequence[Chunk], work: Callable[[Chunk], list[Sample]]
) -> Iterator[tuple[Chunk, list[Sample]]]:
    """(chunk, samples) as they finish, with at most CHUNKS_IN_FLIGHT being worked on."""
    waiting = list(reversed(chunks))
    running: dict[Future[list[Sample]], Chunk] = {}
    try:
        while waiting or running:
            while waiting and len(running) < CHUNKS_IN_FLIGHT:
                chunk = waiting.pop()
                running[threads.submit(work, chunk)] = chunk
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:
        wait(running)  # after an error nobody may go on using the model


def draw(chunk: Chunk, problems: ProblemSet, agent: BatchAgent, judge: Judge, seed: int) -> list[Sample]:
    """The samples of one chunk: one `cef/Reasoning-v0` episode per answer, on the full suite."""
    cells = [(id_, index) for id_ in chunk.problem_ids for index in range(chunk.start, chunk.stop)]
    envs = [
        gym.make("cef/Reasoning-v0", disable_env_checker=True, coverage=None, problems=problems, judge=judge)
        for _ in cells
    ]
    trajectories = rollout(envs, agent, [id_ for id_, _ in cells], seed)
    return [
        to_sample(trajectory, chunk, index, problems.get(id_).tags)
        for trajectory, (id_, index) in zip(trajectories, cells, strict=True)
    ]


def to_sample(trajectory: Trajectory, chunk: Chunk, index: int, tags: tuple[str, ...]) -> Sample:
    """The row that statistics need of an episode."""
    program = extract_program(str(trajectory.messages[-1]["content"]))
    return Sample(
        problem_id=trajectory.problem_id,
        split=chunk.split,
        alpha=chunk.alpha,
        index=index,
        outcome=trajectory.outcome,
        coverage_reached=int(trajectory.info["coverage_reached"]),
        format_error=trajectory.info["format_error"] or None,
        compile_error=bool(trajectory.info["compile_error"]),
        program_sha256=None if program is None else hashlib.sha256(program.encode()).hexdigest(),
        tokens=sum(len(reply.token_ids) for reply in trajectory.replies),
        tags=tags,
    )
