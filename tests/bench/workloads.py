"""Programs and inputs of the judge's benchmarks."""

import subprocess
import sys
from pathlib import Path

from cef_env.problems import Problem, TestCase

TESTS = 20
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
PROGRAMS = {"realistic": REALISTIC, "trivial": TRIVIAL}


def inputs(kind: str) -> list[str]:
    """Twenty inputs, from a few characters to about 10^5 (trivial: all small)."""
    if kind == "trivial":
        return [f"{number} {number + 1}\n" for number in range(TESTS)]
    sizes = [round(2 * 1.62**step) for step in range(TESTS)]
    return [f"{n}\n" + " ".join(str(i * 7919 % 100003) for i in range(n)) + "\n" for n in sizes]


def workload(kind: str, folder: Path) -> list[tuple[Problem, Path]]:
    """Five problems with twenty tests each, and the file of the program that solves each."""
    pairs = []
    for number, program in enumerate(PROGRAMS[kind]):
        source = folder / f"p{number}.py"
        source.write_text(program)
        cases = []
        for text in inputs(kind):
            done = subprocess.run([sys.executable, str(source)], input=text, capture_output=True, text=True)
            cases.append(TestCase(text, done.stdout))
        pairs.append((Problem(str(number), "bench", "bench", tuple(cases), time_limit_s=10), source))
    return pairs
