"""How fast this machine runs Python, and what that may do to time limits.

    factor = machine_speed(judge).factor            # 2.0: half as fast as the reference machine
    Judge(speed_factor=factor)                      # every time limit times 2

A time limit in CPU seconds means less on a slow machine. Measuring is not acting: limits stay as the problems
state them unless a factor is asked for, here or by CEF_SPEED_FACTOR. Does not know C++ (a factor of Python is
close, not exact) and does not notice other programs on the machine: CPU time hardly feels them.
"""

import math
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cef_env.errors import JudgeError, UserError
from cef_env.judge.types import Outcome
from cef_env.problems.types import Problem, TestCase

if TYPE_CHECKING:  # the judge itself imports this module
    from cef_env.judge.judge import Judge

ENVIRONMENT_VARIABLE = "CEF_SPEED_FACTOR"
MAX_FACTOR = 1000.0
REFERENCE_S = 0.55
"""CPU seconds of `PROGRAM` on the machine where this project's limits were chosen: 2 virtual cores, CPython
3.11.7 as built by pyenv. Median while idle; there the factor is 1.0. A Python built with profile-guided
optimization is a quarter faster on the same machine."""

PROGRAM = """
def integers(n):
    a, b = 1, 0
    for i in range(n):
        a = (a * 1103515245 + 12345) & 0x7FFFFFFF
        b ^= a >> (i & 7)
    return b

def dictionaries(n):
    counts = {}
    x = 1
    for _ in range(n):
        x = x * 69069 % 1000003
        key = x % 5003
        counts[key] = counts.get(key, 0) + 1
    return max(counts.values()) * len(counts)

def lists(n):
    x, values = 7, []
    for _ in range(n):
        x = x * 16807 % 2147483647
        values.append(x)
    values.sort()
    values.sort(key=lambda v: v % 1009)
    return sum(v * (i & 15) for i, v in enumerate(values)) % 1000007

def strings(n):
    words = [str(i * i) for i in range(n)]
    text = " ".join(words).replace("11", "7")
    return sum(len(w) for w in text.split()) + text.count("49")

print(integers(1_000_000), dictionaries(600_000), lists(170_000), strings(150_000))
"""
_ANSWER = "2081731275 970582 92429 1505448"
_PROBLEM = Problem("speed", "Speed", "", (TestCase("", _ANSWER),), time_limit_s=60.0)


@dataclass(frozen=True, slots=True)
class Speed:
    """What was measured."""

    seconds: tuple[float, ...]
    """CPU seconds of each run."""

    @property
    def factor(self) -> float:
        """Median CPU time over that of the reference machine: above 1 is slower."""
        return statistics.median(self.seconds) / REFERENCE_S

    @property
    def spread(self) -> float:
        """Slowest run over fastest: far above 1 says that the measurement is worth little."""
        return max(self.seconds) / min(self.seconds)


def machine_speed(judge: "Judge", runs: int = 5, progress: Callable[[int, int], None] | None = None) -> Speed:
    """Run the fixed program `runs` times, one after the other.

    `judge` should have no cache, which would answer every run but the first. Raises `JudgeError` when the
    program, whose answer is known, is not accepted.
    """
    seconds = []
    for done in range(1, runs + 1):
        result = judge.run(_PROBLEM, PROGRAM)
        if result.outcome is not Outcome.CORRECT:
            raise JudgeError(f"the program that measures speed was not accepted: {result.failed}")
        seconds.append(result.tests[0].cpu_s)
        if progress is not None:
            progress(done, runs)
    return Speed(tuple(seconds))


def speed_factor(value: float | None = None) -> float:
    """`value`, or CEF_SPEED_FACTOR where it is None, or 1.0; the one place that reads the variable.

    Raises `UserError` for what cannot multiply a time limit.
    """
    name, given = "speed_factor", value if value is not None else os.environ.get(ENVIRONMENT_VARIABLE, 1.0)
    if value is None:
        name = ENVIRONMENT_VARIABLE
    try:
        factor = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        factor = math.nan
    if not 0 < factor <= MAX_FACTOR:
        raise UserError(
            f"{name}={given!r}: use a positive number up to {MAX_FACTOR:g}, "
            "such as 1.5 for a machine 1.5 times slower"
        )
    return factor
