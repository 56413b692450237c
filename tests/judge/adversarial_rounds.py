"""Hostile programs, many rounds, on one tier: a table of programs and verdicts, and what was left on the host.

    python -m tests.judge.adversarial_rounds --rounds 40 --tier landlock

Exit status 1 when a verdict was wrong or anything was left.
"""

import argparse
import collections
import sys
import time

from rich.console import Console
from rich.table import Table

from cef_env.judge import Judge, JudgeResult
from tests.judge.adversarial import EXPECTED, HOSTILE
from tests.judge.helpers import TIERS, make_problem
from tests.judge.traces import Traces, traces

PROBLEM = make_problem(("1\n", EXPECTED), ("12\n", EXPECTED), time_limit_s=0.4)


def verdict_of(result: JudgeResult) -> str:
    if result.compile_error:
        return "compile error"
    return str(result.failed.verdict) if result.failed else "accepted"


def left_since(before: Traces, wait_s: float) -> dict[str, object]:
    """What is there now and was not before; what is just ending gets `wait_s`."""
    deadline = time.monotonic() + wait_s
    while (now := traces()) != before and time.monotonic() < deadline:
        time.sleep(0.01)
    fields = vars(before)
    return {name: getattr(now, name) for name in fields if getattr(now, name) != fields[name]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--tier", choices=TIERS, required=True)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    seen: dict[str, collections.Counter[str]] = {hostile.name: collections.Counter() for hostile in HOSTILE}
    leftovers: collections.Counter[str] = collections.Counter()
    with Judge(workers=1, sandbox=args.tier) as judge:
        judge.run(PROBLEM, "")  # the thread that starts boxes stays
    start = time.monotonic()
    before = traces()
    for _ in range(args.rounds):
        with Judge(workers=args.workers, sandbox=args.tier) as judge:
            results = judge.map([(PROBLEM, hostile.program) for hostile in HOSTILE])
        for hostile, result in zip(HOSTILE, results):
            seen[hostile.name][verdict_of(result)] += 1
        leftovers.update(left_since(before, 3.0).keys())
    wrong = 0
    table = Table(title=f"tier {args.tier}, {args.rounds} rounds, {time.monotonic() - start:.0f} s")
    for column in ("program", "verdicts", "wrong"):
        table.add_column(column)
    for hostile in HOSTILE:
        right = ("compile error",) if hostile.compile_error else tuple(map(str, hostile.right(args.tier)))
        bad = sum(count for verdict, count in seen[hostile.name].items() if verdict not in right)
        wrong += bad
        verdicts = ", ".join(f"{verdict} {count}" for verdict, count in seen[hostile.name].items())
        table.add_row(hostile.name, verdicts, str(bad or ""))
    console = Console(width=100)
    console.print(table)
    console.print(f"wrong verdicts: {wrong}; rounds that left something: {dict(leftovers) or 0}")
    sys.exit(1 if wrong or leftovers else 0)


if __name__ == "__main__":
    main()
