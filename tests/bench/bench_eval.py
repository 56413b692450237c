"""Evaluation at the size of the paper: 500 problems x 9 alphas x 250 answers. Command: `make bench`.

Measures the table of pass@k, reading 1.1 million samples into counts (JSON lines and parquet), and all
statistics with 2,000 bootstrap rounds. Prints seconds on the clock, CPU seconds and peak memory.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cef_env.eval import Member, Plan, Work, analyse, pass_at_k, read_tables
from cef_env.eval.counts import OUTCOMES, Counts
from cef_env.eval.plan import SAMPLES, claim
from cef_env.eval.store import with_commit
from cef_env.eval.summary import summary_of
from cef_env.eval.tables import compact

PROBLEMS, ANSWERS = 500, 250
ALPHAS = tuple(-0.5 + 0.25 * i for i in range(9))


def measured(name: str, work: Callable[[], object], target: str) -> None:
    """Run `work` and print what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:<44}{wall:8.2f} s{cpu:8.2f} s CPU{peak:7.0f} MB so far   target {target}", flush=True)


def table() -> object:
    return pass_at_k(250, np.arange(251)[:, None], np.arange(1, 251))


def synthetic_counts() -> Counts:
    """Rates between which problems differ, none saturated."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([0.05, 0.4, 0.4, 0.05], size=(len(ALPHAS), PROBLEMS))
    zeros = np.zeros((len(ALPHAS), PROBLEMS), int)
    return Counts(
        "hard", tuple(map(Member, ALPHAS)), tuple(f"p{i:04}" for i in range(PROBLEMS)),
        rng.multinomial(ANSWERS, shares), np.zeros((len(ALPHAS), PROBLEMS, 3), int), zeros, zeros,
        ((),) * PROBLEMS, tuple(("easy", "medium", "hard")[i % 3] for i in range(PROBLEMS)),
    )  # fmt: skip


def write_samples(folder: Path) -> None:
    """A complete sweep of made-up samples."""
    ids = tuple(f"p{i:04}" for i in range(PROBLEMS))
    plan = Plan(tuple(Work(Member(alpha), "hard", ids, ANSWERS) for alpha in ALPHAS))
    claim(folder, plan)
    rng = random.Random(0)
    with (folder / SAMPLES).open("wb") as stream:
        for chunk in plan.chunks():
            body = b"".join(
                json.dumps(row(p, chunk.alpha, i, rng), separators=(",", ":")).encode() + b"\n"
                for p in chunk.problem_ids
                for i in range(chunk.start, chunk.stop)
            )
            stream.write(with_commit(chunk, body))


def row(problem: str, alpha: float | None, index: int, rng: random.Random) -> dict[str, object]:
    outcome = rng.choice(OUTCOMES)
    bad = outcome == "format_error"
    return {
        "problem_id": problem, "split": "hard", "alpha": alpha, "index": index, "outcome": str(outcome),
        "coverage_reached": 3, "format_error": "no_code" if bad else None,
        "program_sha256": None if bad else f"{rng.randrange(1 << 255):064x}", "tokens": rng.randrange(4000),
        "tags": ["lcb"], "compile_error": False, "difficulty": "hard",
    }  # fmt: skip


def statistics() -> None:
    counts = synthetic_counts()
    measured("all statistics", lambda: summary_of(analyse({"hard": counts})), "60 s, 2 GB")


def reading() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_samples(folder)
        measured("1.1M samples to counts, JSON lines", lambda: read_tables(folder), "2 GB")
        measured("compacting them to parquet", lambda: compact(folder), "2 GB")
        measured("1.1M samples to counts, parquet", lambda: read_tables(folder), "2 GB")


if __name__ == "__main__":
    if len(sys.argv) > 1:  # a process of its own, so that its peak memory is its own
        {"statistics": statistics, "reading": reading}[sys.argv[1]]()
    else:
        table()
        measured("251 x 250 table of pass@k", table, "0.2 s")
        for part in ("reading", "statistics"):
            subprocess.run([sys.executable, __file__, part], check=True)
