"""How fast sources are read: the first pass, the index, and problems by id; and how much memory that takes.

    python tests/bench/bench_problems.py [MEGABYTES]

Writes LiveCodeBench lines and CodeContests+ rows with MEGABYTES (default 200) of tests into a temporary
folder, and runs every measurement in a process of its own, so that peak memory is that of the measurement.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.problems import formats  # noqa: E402

PROBLEMS = 1000
SHARES = [2e-5] * 12 + [5e-4] * 8 + [5e-3] * 6 + [0.05] * 4 + [0.18] * 4
"""Length of each test of a problem, as a share of all: several decades, as real suites have."""

STEPS = [
    ("stats, first time", "stats"),
    ("list, with the index", "list"),
    ("stats, with the index", "stats"),
    ("20 by id, at random", "random"),
]
MEASURE = """
import random, re, sys, time
from cef_env.problems import load
from cef_env.problems.stats import measure
started = time.perf_counter()
problems = load(sys.argv[1])
if sys.argv[2] == "stats":
    measure(problems)
if sys.argv[2] == "random":
    chosen = random.Random(0).sample(problems.ids, 20)
    started = time.perf_counter()
    for id_ in chosen:
        problems.get(id_)
seconds = time.perf_counter() - started
peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())  # ru_maxrss begins with the parent's
print(seconds, int(peak[1]) / 1024)
"""


def tests(rng: random.Random, text: str, characters: int) -> list[dict[str, str]]:
    made = []
    for share in SHARES:
        length = int(share * characters)
        start = rng.randrange(len(text) - length)
        made.append({"input": text[start : start + length] + "\n", "output": "1\n", "testtype": "stdin"})
    return made


def write(folder: Path, megabytes: int) -> list[str]:
    """Two sources of the same tests."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = random.Random(0)
    characters = megabytes * 1_000_000 // PROBLEMS
    text = " ".join(str(rng.randrange(10**9)) for _ in range(characters // 4 + 1000))
    rows: list[dict[str, Any]] = []
    writer = None
    with (folder / "test.jsonl").open("w") as file:
        for number in range(PROBLEMS):
            made = tests(rng, text, characters)
            line = formats.lcb(f"p{number}", private_test_cases=formats.packed(made))
            file.write(json.dumps(line) + "\n")
            cases = [{"input": test["input"], "output": test["output"]} for test in made]
            rows.append(formats.codecontests_plus(f"p{number}", test_cases=cases))
            if len(rows) == 100:
                table = pa.Table.from_pylist(rows)
                writer = writer or pq.ParquetWriter(folder / "data.parquet", table.schema)
                writer.write_table(table)
                rows = []
    if writer is not None:
        writer.close()
    return [f"lcb:{folder / 'test.jsonl'}", f"codecontests+:{folder / 'data.parquet'}"]


def run(source: str, what: str, cache: Path) -> tuple[float, float]:
    """(seconds, peak MiB)."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", MEASURE, source, what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, mebibytes = map(float, done.stdout.split())
    return seconds, mebibytes


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{PROBLEMS} problems, {megabytes} MB of tests", flush=True)
        for source in write(folder, megabytes):
            print(source.partition(":")[0])
            for label, what in STEPS:
                seconds, mebibytes = run(source, what, folder / "cache")
                print(f"  {label:<22} {seconds:8.2f} s  {mebibytes:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
