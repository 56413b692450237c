"""Many agentic episodes in a row: what they leave behind, and whether memory grows.

    python tests/bench/bench_agentic_episodes.py [--episodes 1000] [--concurrency 4]

A scripted agent writes a program in the terminal, tries it on the samples and hands it in. Environments are
made by `rollout`, used again and closed. Exits with 1 when processes, pseudo-terminals, descriptors, threads
or temporary folders are left, or when an episode is missing.
"""

import argparse
import gc
import os
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym

import cef_env  # noqa: F401 - registers the environments
from cef_env.agents import Fault, ScriptedAgent, rollout
from cef_env.judge import Judge
from cef_env.problems import load


def state() -> dict[str, Any]:
    """What episodes of ours could leave: nothing of it belongs to others."""
    gc.collect()
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return {
        "processes": sum(len(file.read_text().split()) for file in children),
        "descriptors": len(links),
        "pseudo-terminals": sum(link in ("/dev/ptmx", "/dev/pts/ptmx") for link in links),
        "temporary folders": sorted(name for name in os.listdir(tempfile.gettempdir()) if "cef" in name),
        "threads": sum(t.name.startswith("cef-episode") for t in threading.enumerate()),
    }


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


def main(episodes: int, concurrency: int) -> int:
    problems = load("builtin:easy?count=20")
    list(problems)  # made now, so that they do not count as growth
    agent = ScriptedAgent("debugger", problems)
    outcomes: Counter[str] = Counter()
    faults: list[Fault] = []
    with Judge() as judge:

        def play(first: int, count: int) -> None:
            ids = [problems.ids[(first + i) % len(problems)] for i in range(count)]
            for t in rollout(
                lambda: gym.make("cef/Agentic-v0", problems=problems, judge=judge),
                agent,
                ids,
                seed=first,
                concurrency=concurrency,
                step_timeout_s=120,
                faults=faults,
            ):
                outcomes[str(t.outcome)] += 1

        play(0, 4 * concurrency)  # the judge's boxes, imports, pools
        outcomes.clear()
        before, started, memory = state(), time.monotonic(), resident_mib()
        block = max(1, episodes // 10)
        for first in range(0, episodes, block):
            play(first, min(block, episodes - first))
            done, took = min(first + block, episodes), time.monotonic() - started
            print(
                f"{done:6} episodes in {took:6.1f} s ({took / done:.3f} s each), "
                f"resident {resident_mib():.1f} MiB",
                flush=True,
            )
        after = state()
    print(f"outcomes {dict(outcomes)}, faults {len(faults)}, grown by {resident_mib() - memory:.1f} MiB")
    for name, value in before.items():
        print(f"{name:18} before {value}, after {after[name]}")
    return 0 if before == after and outcomes.total() == episodes else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=4)
    sys.exit(main(**vars(parser.parse_args())))
