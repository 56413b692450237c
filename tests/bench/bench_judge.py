"""Tests per second of the judge against other ways to run a program on a test, interleaved in one run.

    python tests/bench/bench_judge.py [--rounds 3] [--programs realistic|trivial|both] [--tiers]

Compare ratios within one table, not across machines. Of the peers, subprocess and `python -I -S -E` have no
isolation and no limits at all; bubblewrap per test has the same namespaces, but no limits; DMOJ's executor
is measured when CEF_DMOJ_PYTHON names a Python that has it (`pip install dmoj`). Also sweeps the number of
boxes, which is how the default of `Judge(workers=None)` was chosen. With --tiers, compares the isolation
tiers that this machine has instead.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import track
from rich.table import Table

from cef_env.judge import Judge
from cef_env.problems import Problem
from cef_env.sandbox import Box, resolve
from cef_env.sandbox.bwrap import find_bwrap
from cef_env.sandbox.tiers import survey
from tests.bench.workloads import PROGRAMS, TESTS, workload

BASE = "python -I -S -E per test"
Pairs = list[tuple[Problem, Path]]


def run_each(command: list[str], pairs: Pairs, threads: int) -> None:
    """A new process per test, as simple runners do it."""

    def one(job: tuple[Path, str, str]) -> bool:
        source, given, expected = job
        done = subprocess.run([*command, str(source)], input=given, capture_output=True, text=True)
        return done.stdout.split() == expected.split()

    jobs = [(source, test.input, test.output) for problem, source in pairs for test in problem.tests]
    with ThreadPoolExecutor(threads) as pool:
        assert all(pool.map(one, jobs))


def run_dmoj(python: str, pairs: Pairs) -> float:
    tests = [[(test.input, test.output) for test in problem.tests] for problem, _ in pairs]
    command = [python, str(Path(__file__).with_name("peer_dmoj.py")), *(str(source) for _, source in pairs)]
    done = subprocess.run(command, input=json.dumps(tests), capture_output=True, text=True, check=True)
    return float(done.stdout)


def runners(kind: str, pairs: Pairs, judges: dict[int, Judge], cores: int) -> dict[str, Callable[[], float]]:
    """Name -> what measures it: seconds for all tests of all programs."""

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        def measure() -> float:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start

        return measure

    def judged(judge: Judge) -> None:
        results = judge.map([(problem, program) for (problem, _), program in zip(pairs, PROGRAMS[kind])])
        assert all(result.reward() == 1 for result in results)

    light = [sys.executable, "-I", "-S", "-E"]
    isolated = [find_bwrap(), "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", *light]
    chosen = {f"judge, {n} boxes": timed(lambda judge=judge: judged(judge)) for n, judge in judges.items()}
    chosen[BASE] = timed(lambda: run_each(light, pairs, 1))
    chosen[f"{BASE}, {cores} at once"] = timed(lambda: run_each(light, pairs, cores))
    chosen["python per test"] = timed(lambda: run_each([sys.executable], pairs, 1))
    chosen["bubblewrap per test"] = timed(lambda: run_each(isolated, pairs, 1))
    dmoj = os.environ.get("CEF_DMOJ_PYTHON")
    if dmoj:
        chosen["DMOJ executor"] = lambda: run_dmoj(dmoj, pairs)
    return chosen


def measure(kind: str, rounds: int, console: Console) -> None:
    cores = len(os.sched_getaffinity(0))
    seconds: dict[str, list[float]] = {}
    with TemporaryDirectory() as folder:
        pairs = workload(kind, Path(folder))
        judges = {number: Judge(workers=number) for number in sorted({1, 2, 4, 2 * cores})}
        chosen = runners(kind, pairs, judges, cores)
        for name in chosen:
            if name.startswith("judge"):
                chosen[name]()  # boxes start on first use
        for _ in track(range(rounds), f"{kind} programs", console=console, transient=True):
            for name, run in chosen.items():
                seconds.setdefault(name, []).append(run())
        tier = judges[1].tier
        for judge in judges.values():
            judge.close()
    total = len(pairs) * TESTS
    base = total / statistics.median(seconds[BASE])
    table = Table(title=f"{len(pairs)} {kind} programs x {TESTS} tests, tier {tier}, {cores} cores")
    for column in ("runner", "tests/s", f"vs {BASE}", "spread"):
        table.add_column(column, justify="left" if column == "runner" else "right")
    for name, times in seconds.items():
        rate = total / statistics.median(times)
        spread = (max(times) - min(times)) / statistics.median(times)
        table.add_row(name, f"{rate:.0f}", f"{rate / base:.2f}", f"{100 * spread:.0f}%")
    console.print(table)


def measure_tiers(kind: str, rounds: int, console: Console) -> None:
    """Every tier of this machine: how long a box takes to start, and tests per second with a box per core."""
    cores = len(os.sched_getaffinity(0))
    plans = {tier: resolve(tier) for tier, reason in survey() if reason is None}
    starts: dict[str, list[float]] = {tier: [] for tier in plans}
    seconds: dict[str, list[float]] = {tier: [] for tier in plans}
    with TemporaryDirectory() as folder:
        pairs = workload(kind, Path(folder))
        judges = {tier: Judge(workers=cores, sandbox=tier) for tier in plans}
        chosen = {tier: runners(kind, pairs, {cores: judge}, cores) for tier, judge in judges.items()}
        for round_ in track(range(rounds + 1), f"{kind} programs", console=console, transient=True):
            for tier, plan in plans.items():
                start = time.perf_counter()
                Box(plan).close()
                closed = time.perf_counter() - start
                took = chosen[tier][f"judge, {cores} boxes"]()
                if round_ > 0:  # boxes start on first use
                    starts[tier].append(closed)
                    seconds[tier].append(took)
        for judge in judges.values():
            judge.close()
    total = len(pairs) * TESTS
    table = Table(title=f"{len(pairs)} {kind} programs x {TESTS} tests, {cores} boxes, {cores} cores")
    for column in ("tier", "start and end of a box, ms", "tests/s", "spread"):
        table.add_column(column, justify="left" if column == "tier" else "right")
    for tier, times in seconds.items():
        spread = (max(times) - min(times)) / statistics.median(times)
        milliseconds = 1000 * statistics.median(starts[tier])
        rate = total / statistics.median(times)
        table.add_row(tier, f"{milliseconds:.0f}", f"{rate:.0f}", f"{100 * spread:.0f}%")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--programs", choices=[*PROGRAMS, "both"], default="both")
    parser.add_argument("--tiers", action="store_true")
    args = parser.parse_args()
    for kind in PROGRAMS if args.programs == "both" else [args.programs]:
        (measure_tiers if args.tiers else measure)(kind, args.rounds, Console())


if __name__ == "__main__":
    main()
