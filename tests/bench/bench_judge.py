"""Tests per second of the judge against starting an interpreter per test, interleaved in one run.

    python tests/bench/bench_judge.py [--rounds 3] [--programs trivial|realistic]

The rivals have no isolation and no limits; compare ratios within one table, not across machines. Also
sweeps the number of boxes, which is how the default of `Judge(workers=None)` was chosen.
"""

import argparse
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
from rich.table import Table

from cef_env.judge import Judge
from cef_env.problems import Problem, TestCase

READ = "import sys\ndata = list(map(int, sys.stdin.read().split()))\nn, a = data[0], data[1:]\n"
REALISTIC = [
    READ + "print(sum(a) % 1000003)",
    READ + "print(*sorted(a))",
    READ + "from collections import Counter\nprint(Counter(a).most_common(1)[0][1])",
    READ + "import heapq\nheapq.heapify(a)\nt = 0\nwhile len(a) > 1:\n"
    "    s = heapq.heappop(a) + heapq.heappop(a)\n    t += s\n    heapq.heappush(a, s)\nprint(t)",
    READ + "import bisect\nd = []\nfor x in a:\n    i = bisect.bisect_left(d, x)\n"
    "    d[i:i + 1] = [x]\nprint(len(d))",
]
TRIVIAL = ["print(sum(map(int, input().split())))  #" + str(number) for number in range(5)]
TESTS = 20


def inputs(kind: str) -> list[str]:
    """Twenty inputs, from a few characters to about 10^5 (trivial: all small)."""
    if kind == "trivial":
        return [f"{number} {number + 1}\n" for number in range(TESTS)]
    sizes = [round(2 * 1.62**step) for step in range(TESTS)]
    return [f"{n}\n" + " ".join(str(i * 7919 % 100003) for i in range(n)) + "\n" for n in sizes]


def run_plain(options: list[str], source: str, stdin: str) -> str:
    done = subprocess.run([sys.executable, *options, source], input=stdin, capture_output=True, text=True)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--programs", choices=["trivial", "realistic"], default="realistic")
    args = parser.parse_args()
    console = Console()
    cores = len(os.sched_getaffinity(0))
    programs = REALISTIC if args.programs == "realistic" else TRIVIAL
    with TemporaryDirectory() as folder:
        sources = [Path(folder) / f"p{number}.py" for number in range(len(programs))]
        for source, program in zip(sources, programs):
            source.write_text(program)
        texts = inputs(args.programs)
        problems = []
        for number, source in enumerate(sources):
            cases = [TestCase(text, run_plain([], str(source), text)) for text in texts]
            problems.append(Problem(str(number), "bench", "bench", tuple(cases), time_limit_s=10))
        pairs = list(zip(problems, programs))

        def plain(options: list[str], threads: int) -> None:
            jobs = [(source, test) for source, problem in zip(sources, problems) for test in problem.tests]
            with ThreadPoolExecutor(threads) as pool:
                for (_, test), out in zip(
                    jobs, pool.map(lambda j: run_plain(options, str(j[0]), j[1].input), jobs)
                ):
                    assert out.split() == test.output.split()

        def judged(judge: Judge) -> None:
            assert all(result.reward() == 1 for result in judge.map(pairs))

        boxes = sorted({1, cores, 2 * cores, 3 * cores, 4 * cores})
        judges = {number: Judge(workers=number) for number in boxes}
        runners: dict[str, Callable[[], None]] = {
            f"judge, {number} boxes": lambda judge=judge: judged(judge) for number, judge in judges.items()
        }
        runners[f"python -I -S -E per test, {cores} at once"] = lambda: plain(["-I", "-S", "-E"], cores)
        runners["python -I -S -E per test"] = lambda: plain(["-I", "-S", "-E"], 1)
        runners[f"python per test, {cores} at once"] = lambda: plain([], cores)
        runners["python per test"] = lambda: plain([], 1)
        seconds: dict[str, list[float]] = {name: [] for name in runners}
        for judge in judges.values():
            judged(judge)  # boxes start on first use
        for _ in range(args.rounds):
            for name, runner in runners.items():
                start = time.perf_counter()
                runner()
                seconds[name].append(time.perf_counter() - start)
        tier = judges[1].tier
        for judge in judges.values():
            judge.close()
    total = len(programs) * TESTS
    base = total / statistics.median(seconds["python -I -S -E per test"])
    table = Table(
        title=f"{len(programs)} {args.programs} programs x {TESTS} tests, tier {tier}, {cores} cores"
    )
    for column in ("runner", "tests/s", "vs python -I -S -E", "spread"):
        table.add_column(column, justify="left" if column == "runner" else "right")
    for name, times in seconds.items():
        rate = total / statistics.median(times)
        spread = (max(times) - min(times)) / statistics.median(times)
        table.add_row(name, f"{rate:.0f}", f"{rate / base:.2f}", f"{100 * spread:.0f}%")
    console.print(table)


if __name__ == "__main__":
    main()
