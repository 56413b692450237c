"""What a report shows beside the statistics, for tests: hostile answers, problems, a training log."""

import hashlib
from dataclasses import replace
from typing import Any

from cef_env.eval import Sample, tabulate
from cef_env.eval.reader import Answer, choose
from cef_env.judge.types import FormatErrorCause, Outcome, TestResult, Verdict
from cef_env.problems import Problem
from cef_env.problems.types import TestCase
from tests.eval import synthetic

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}]]>-->"
PROGRAM = """import sys
n, k = map(int, input().split())  # two numbers
a = list(map(int, input().split()))
best = 0
for i in range(n):
    for j in range(i, n):  # slow
        best = max(best, sum(a[i:j + 1]) % k)
print("best", best)
"""
LENGTHS = (8, 40, 220, 1800, 9000)
VERDICTS = {
    Outcome.CORRECT: Verdict.ACCEPTED,
    Outcome.OPTIMIZATION_FAILURE: Verdict.TIME_LIMIT,
    Outcome.CORRECTNESS_FAILURE: Verdict.WRONG_ANSWER,
}
ALPHAS = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
EASY = "<easy & co>"
TRAIN_LOG = [
    {
        "run": run,
        "step": s,
        "reward": s / 10,
        "correct": 0.3,
        "optimization_failure": 0.2,
        "format_error": 0.0,
    }
    for run in ("low", "high")
    for s in range(5)
]


def samples() -> list[Sample]:
    """Two splits, one of a hostile name; a problem of a hostile id that nobody solves; a control."""
    hard = synthetic.draw(synthetic.PAPER_LIKE, problems=25, answers=8, alphas=ALPHAS)
    hard += [
        Sample(HOSTILE, "hard", a, i, Outcome.FORMAT_ERROR, format_error=FormatErrorCause.NO_CODE)
        for a in ALPHAS
        for i in range(8)
    ]
    control = [replace(s, alpha=None, label="random 1.5") for s in hard if s.alpha == 0]
    easy = synthetic.draw(synthetic.NULL, problems=6, answers=4, alphas=(0.0, 0.5, 1.0), split=EASY)
    return [*hard, *control, *easy]


def answer(sample: Sample, program: str = PROGRAM) -> Answer:
    """`sample` with a program and with verdicts that fit its outcome."""
    if sample.outcome is Outcome.FORMAT_ERROR:
        return Answer(sample)
    draw = hashlib.sha256(f"{sample.problem_id}/{sample.alpha}/{sample.index}".encode()).digest()
    last = VERDICTS[sample.outcome]
    ran = len(LENGTHS) if last is Verdict.ACCEPTED else 2 + draw[0] % (len(LENGTHS) - 1)
    tests = [
        TestResult(
            length,
            last if i == ran - 1 else Verdict.ACCEPTED,
            1.2 if i == ran - 1 and last is Verdict.TIME_LIMIT else 0.01 + draw[i] / 2000,
            0.1,
            9 + draw[i + 8] / 64,
            HOSTILE if i == ran - 1 and last is not Verdict.ACCEPTED else "",
        )
        for i, length in enumerate(LENGTHS[:ran])
    ]
    return Answer(sample, f"{program}# {HOSTILE}\n# answer {sample.index}\n", tuple(tests))


def problems(samples: list[Sample]) -> dict[str, dict[str, Problem]]:
    """A problem for every id."""
    found: dict[str, dict[str, Problem]] = {}
    for s in samples:
        statement = f"Add <b>bold</b> numbers. {HOSTILE}"
        problem = Problem(s.problem_id, f"Sum of {s.problem_id}", statement, (TestCase("1", "1"),))
        found.setdefault(s.split, {}).setdefault(s.problem_id, problem)
    return found


def material(samples: list[Sample]) -> dict[str, Any]:
    """Arguments of `write_report`."""
    chosen = choose(samples, list(tabulate(samples).values()))
    return {
        "meta": {
            "title": "A <run>", "preset": "test", "model": {"size": 3}, "alphas": [0, 1], "nothing": None,
            "config": {"sft": {"steps": 3}},
        },
        "train_log": TRAIN_LOG,
        "notes": ["A note & more."],
        "answers": [answer(s) for s in chosen],
        "problems": problems(samples),
        "made": {"versions": {"cef-env": "0"}},
        "stages": [{"stage": "sft", "wall_s": 1.5, "cpu_s": 1.25, "peak_memory_mb": 1100, "resumed": False}],
    }  # fmt: skip
