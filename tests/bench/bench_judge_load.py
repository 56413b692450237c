"""Whether load changes verdicts, and whether a large caller makes tests slower.

    python tests/bench/bench_judge_load.py [--runs 200]

1. A program that uses 0.67 of its CPU limit when alone, judged 200 times with 1, 2, 4 and 8 at once: every
   time limit is a false one. Beside the CPU, the wall time shows what a wall-clock limit would have done.
2. One test of a trivial program while the calling process holds 1, 100 and 1,000 MB, beside a plain fork of
   that process: a judge that forks its caller gets slower with it.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from cef_env.judge import Judge, Verdict
from cef_env.problems import Problem, TestCase
from cef_env.sandbox import Box, Limits, resolve

SHARE = 0.67
PROGRAM = "n = int(input())\ns = 0\nfor i in range(n): s = (s * 31 + i) % 1000003\nprint(s)"
LOOPS = 1_500_000


def problem(limit_s: float, runs: int) -> list[Problem]:
    tests = (TestCase(f"{LOOPS}\n", expected()),)
    return [Problem(f"load{number}", "load", "load", tests, time_limit_s=limit_s) for number in range(runs)]


def expected() -> str:
    s = 0
    for i in range(LOOPS):
        s = (s * 31 + i) % 1000003
    return str(s)


def verdicts_under_load(runs: int, console: Console) -> None:
    with Judge(workers=1) as judge:
        solo = [judge.run(one, PROGRAM).tests[0] for one in problem(60, 10)]
    cpu = statistics.median(test.cpu_s for test in solo)
    wall = statistics.median(test.wall_s for test in solo)
    table = Table(title=f"{runs} programs that use {SHARE} of the CPU limit ({cpu / SHARE:.2f} s)")
    for column in ("at once", "false time limits", "CPU median / max", "wall median / max", "wall > limit"):
        table.add_column(column, justify="right")
    for workers in (1, 2, 4, 8):
        with Judge(workers=workers) as judge:
            tests = [r.tests[0] for r in judge.map([(p, PROGRAM) for p in problem(cpu / SHARE, runs)])]
        false = sum(test.verdict is not Verdict.ACCEPTED for test in tests)
        cpus, walls = [t.cpu_s / cpu for t in tests], [t.wall_s / wall for t in tests]
        table.add_row(
            str(workers),
            str(false),
            f"{statistics.median(cpus):.2f}x / {max(cpus):.2f}x",
            f"{statistics.median(walls):.2f}x / {max(walls):.2f}x",
            str(sum(t.wall_s > cpu / SHARE for t in tests)),
        )
    console.print(table)


def median_ms(work: Callable[[], object], times: int = 50) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


def fork_here() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def cost_of_a_test(console: Console) -> None:
    table = Table(title="one test of a trivial program, by what the calling process holds")
    for column in ("resident", "test in a box", "fork of the caller"):
        table.add_column(column, justify="right")
    with Box(resolve()) as box:
        box.load("print(input())", Limits(cpu_s=10, memory_bytes=256 << 20))
        for megabytes in (1, 100, 1000):
            ballast = bytearray(os.urandom(1 << 20) * megabytes)
            test, fork = median_ms(lambda: box.run(b"1")), median_ms(fork_here)
            table.add_row(f"{megabytes} MB", f"{test:.2f} ms", f"{fork:.2f} ms")
            del ballast
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    args = parser.parse_args()
    console = Console()
    cost_of_a_test(console)
    verdicts_under_load(args.runs, console)


if __name__ == "__main__":
    main()
