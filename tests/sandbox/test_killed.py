"""A judge killed in the middle of a test leaves nothing that runs; many boxes at once do not meet."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from cef_env.judge import Judge, Outcome
from cef_env.sandbox import landlock, owner
from tests.judge.helpers import TIERS, make_problem, tier_or_skip
from tests.judge.traces import containers, descendants

JUDGE = """
import sys
from cef_env.judge import Judge
from cef_env.sandbox import owner
from tests.judge.helpers import make_problem
program = "import os, time\\ntry:\\n    if os.fork() == 0: os.setsid(); time.sleep(1000)\\nexcept OSError: pass\\nwhile True: pass"
judge = Judge(workers=1, sandbox=sys.argv[1])
judge.run(make_problem(("1", "1")), "print(1)")
print(owner.mark(), flush=True)
judge.run(make_problem(("1", "1"), time_limit_s=30), program)
"""


@pytest.mark.parametrize("tier", TIERS)
def test_nothing_is_left_of_a_judge_that_is_killed_in_the_middle_of_a_test(tier: str) -> None:
    tier_or_skip(tier)
    process = subprocess.Popen(
        [sys.executable, "-c", JUDGE, tier], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert process.stdout is not None
    mark = process.stdout.readline().strip()
    begun: dict[str, str | None] = {}
    deadline = time.monotonic() + 20
    while len(begun) < 4 and not containers(mark) and time.monotonic() < deadline:  # until the program runs
        time.sleep(0.5)
        begun = {pid: owner.started(int(pid)) for pid in descendants(process.pid)} if tier != "docker" else {}
    assert len(begun) >= 4 or containers(mark)
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 5

    def left() -> object:
        alive = [pid for pid, start in begun.items() if owner.started(int(pid)) == start]
        return [pid for pid in alive if " Z " not in _stat(pid)] or containers(mark)

    while left() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left()
    landlock.sweep()
    assert not list(Path(landlock.tempfile.gettempdir()).glob(f"{landlock.PREFIX}.{mark}.*"))


def _stat(pid: str) -> str:
    """The line of a process; of one that ended and that the machine's first process has not reaped: ` Z `."""
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return " Z "


@pytest.mark.parametrize("tier", TIERS)
def test_eight_boxes_at_once_do_not_meet(tier: str) -> None:
    tier_or_skip(tier)
    attack = """
import os, signal, time
for _ in range(20):
    for pid in (-1, os.getppid(), *range(max(1, os.getpid() - 40), os.getpid())):
        try: os.kill(pid, signal.SIGKILL)
        except OSError: pass
    time.sleep(0.01)
print(input())
"""
    victim = "import time\ntime.sleep(0.3)\nprint(input())"
    problem = make_problem(("1", "1"), ("22", "22"), time_limit_s=2.0)
    with Judge(workers=8, sandbox=tier) as judge:
        pairs = [(problem, f"{attack if n % 2 else victim}#{n}") for n in range(16)]
        results = judge.map(pairs)
    assert [result.outcome for result in results] == [Outcome.CORRECT] * 16, results
