"""Terminals and Python tools: start and round-trip times, many at once, 1,000 in a row that leave nothing.

    python tests/bench/bench_terminal.py [TERMINALS]

Wants an idle machine. Exits with 1 when anything is left behind.
"""

import gc
import os
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from cef_env.sandbox import Plan, resolve
from cef_env.sandbox.python_tool import PythonTool
from cef_env.sandbox.terminal import Terminal

REPEATS = 50
AT_ONCE = 64


def milliseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1e3


def summary(values: list[float]) -> str:
    return f"median {statistics.median(values):7.2f} ms   min {min(values):7.2f}   max {max(values):7.2f}"


def times(plan: Plan) -> None:
    starts, closes = [], []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        terminal = Terminal(plan, {"statement.md": b"x" * 4000})
        starts.append((time.perf_counter() - begin) * 1e3)
        closes.append(milliseconds(terminal.close))
    print(f"terminal ready        {summary(starts)}")
    print(f"terminal close        {summary(closes)}")
    with Terminal(plan) as terminal:
        for name, command in (
            ("round trip", "true"),
            ("with a program", "/bin/true"),
            ("seq 400000", "seq 400000"),
        ):
            count = REPEATS if name != "seq 400000" else 5
            print(
                f"{name:21} {summary([milliseconds(partial(terminal.run, command)) for _ in range(count)])}"
            )
    states: tuple[Literal["call", "episode"], ...] = ("call", "episode")
    for state in states:
        with PythonTool(plan, state) as tool:
            print(f"python {state:14} first  {milliseconds(lambda: tool.run('pass')):7.2f} ms")
            calls = [milliseconds(lambda: tool.run("print(1)")) for _ in range(REPEATS)]
            print(f"python {state:14} {summary(calls)}")


def at_once(plan: Plan) -> None:
    """Half a second of sleep in each of many warm tools."""

    def wall(runs: list[Callable[[], object]]) -> float:
        threads = [threading.Thread(target=run) for run in runs]
        return milliseconds(lambda: ([t.start() for t in threads], [t.join() for t in threads])) / 1e3

    terminals = [Terminal(plan) for _ in range(AT_ONCE)]
    print(
        f"{AT_ONCE} terminals, sleep 0.5: {wall([lambda t=t: t.run('sleep 0.5') for t in terminals]):.2f} s"
    )  # type: ignore[misc]
    for terminal in terminals:
        terminal.close()
    states: tuple[Literal["call", "episode"], ...] = ("call", "episode")
    for state in states:
        tools = [PythonTool(plan, state) for _ in range(AT_ONCE)]
        cold = wall([lambda t=t: t.run("pass") for t in tools])  # type: ignore[misc]
        warm = wall([lambda t=t: t.run("import time; time.sleep(0.5)") for t in tools])  # type: ignore[misc]
        print(f"{AT_ONCE} tools ({state}), sleep 0.5: {warm:.2f} s warm; all started in {cold:.2f} s")
        for tool in tools:
            tool.close()


def state_of_the_machine(plan: Plan) -> dict[str, object]:
    """What terminals of ours could leave: nothing of it belongs to others."""
    gc.collect()
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    groups = (
        [len(list(folder.glob(f"cef-judge*.{os.getpid()}.*"))) for folder in plan.cgroups.folders]
        if plan.cgroups
        else []
    )
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return {
        "processes": sorted(pid for file in children for pid in file.read_text().split()),
        "descriptors": len(links),
        "terminals": sum(link in ("/dev/ptmx", "/dev/pts/ptmx") for link in links),
        "groups": groups,
        "temporary files": sorted(name for name in os.listdir(tempfile.gettempdir()) if "cef" in name),
        "threads": threading.active_count(),
    }


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 10


def long_run(plan: Plan, count: int) -> bool:
    def one() -> None:
        with Terminal(plan, {"statement.md": b"x" * 4000}) as terminal:
            assert terminal.run("sleep 100 & echo $((6 * 7)) | cat").output == "42\n"

    for _ in range(20):
        one()
    before, memory, start = state_of_the_machine(plan), resident(), time.monotonic()
    for _ in range(count):
        one()
    took, grown, after = time.monotonic() - start, resident() - memory, state_of_the_machine(plan)
    print(f"{count} terminals opened, used and closed in {took:.1f} s; resident memory grew by {grown} KiB")
    print(f"left: {'nothing' if before == after else (before, after)}")
    return before == after and grown < 4096


if __name__ == "__main__":
    plan = resolve()
    print(f"tier {plan.tier}, load {os.getloadavg()[0]:.1f}")
    times(plan)
    at_once(plan)
    sys.exit(0 if long_run(plan, int(sys.argv[1]) if len(sys.argv) > 1 else 1000) else 1)
