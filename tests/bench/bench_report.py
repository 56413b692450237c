"""Time and size of the page of a large sweep: 500 problems, 9 alphas, 250 answers to each.

The statistics are computed before and timed apart. Targets: page and figures in 30 s, page at most 15 MB.
Command: `python tests/bench/bench_report.py`.
"""

import hashlib
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from cef_env.eval.analysis import analyse
from cef_env.eval.counts import CAUSES, OUTCOMES, Counts
from cef_env.eval.reader import MOST, Answer
from cef_env.eval.records import Member, Sample
from cef_env.eval.report import Material, write_page
from cef_env.judge.types import FormatErrorCause, Outcome, TestResult, Verdict
from cef_env.problems import Problem
from cef_env.problems.types import TestCase
from tests.eval import synthetic

PROBLEMS, ANSWERS, TESTS = 500, 250, 40
ALPHAS = tuple(float(a) for a in np.linspace(-0.5, 1.5, 9))
LINES = Path(synthetic.__file__).read_text().splitlines()
"""Real code, to be shuffled into programs that compress as programs do."""


def counts(seed: int = 0) -> Counts:
    p = synthetic.probabilities(synthetic.PAPER_LIKE, PROBLEMS, ALPHAS, seed)
    drawn = np.random.default_rng(seed).multinomial(ANSWERS, p)
    causes = np.zeros((len(ALPHAS), PROBLEMS, len(CAUSES)), dtype=np.int64)
    causes[:, :, 0] = drawn[:, :, OUTCOMES.index(Outcome.FORMAT_ERROR)]
    tokens = drawn.sum(axis=2) * 800
    ids = tuple(f"contest/{i:04d}" for i in range(PROBLEMS))
    members = tuple(map(Member, ALPHAS))
    nothing = np.zeros_like(tokens)
    return Counts("hard", members, ids, drawn, causes, nothing, tokens, ((),) * PROBLEMS, (None,) * PROBLEMS)


def answers(table: Counts) -> list[Answer]:
    """What a reader would choose: up to `MOST` of each outcome, each a program of its own of about 1.5 kB."""
    rng = random.Random(0)
    found = []
    for a, member in enumerate(table.members):
        for p, id_ in enumerate(table.problem_ids):
            for o, outcome in enumerate(OUTCOMES):
                for index in range(min(MOST, int(table.outcomes[a, p, o]))):
                    found.append(answer(rng, id_, member, outcome, index))
    return found


def answer(rng: random.Random, id_: str, member: Member, outcome: Outcome, index: int) -> Answer:
    if outcome is Outcome.FORMAT_ERROR:
        cause = FormatErrorCause.NO_CODE
        return Answer(Sample(id_, "hard", member.alpha, index, outcome, format_error=cause, tokens=900))
    program = "\n".join(rng.choices(LINES, k=40))
    ran = TESTS if outcome is Outcome.CORRECT else rng.randint(2, TESTS)
    tests = tuple(
        TestResult(10 * (i + 1) ** 2, Verdict.ACCEPTED, rng.expovariate(20), 0.1, 9 + rng.random() * 20)
        for i in range(ran - 1)
    )
    verdict = Verdict.ACCEPTED if outcome is Outcome.CORRECT else Verdict.WRONG_ANSWER
    last = TestResult(10 * ran**2, verdict, 0.5, 0.6, 30.0, "line 3: expected 4, found 5")
    sha256 = hashlib.sha256(program.encode()).hexdigest()
    sample = Sample(id_, "hard", member.alpha, index, outcome, program_sha256=sha256, tokens=700)
    return Answer(sample, program, (*tests, last))


def main() -> None:
    table = counts()
    statement = "\n".join(LINES[:60])
    problems = {
        "hard": {
            id_: Problem(id_, f"Task {id_}", statement, (TestCase("1", "1"),)) for id_ in table.problem_ids
        }
    }
    chosen = answers(table)
    started = time.perf_counter()
    splits = analyse({"hard": table})
    print(f"statistics: {time.perf_counter() - started:.1f} s")
    with tempfile.TemporaryDirectory() as out:
        wall, cpu = time.perf_counter(), time.process_time()
        page = write_page(out, splits, Material({}, answers=chosen, problems=problems))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        text = page.read_text()
        print(f"page and figures: {wall:.1f} s ({cpu:.1f} s of processor time)")
        print(f"page: {page.stat().st_size / 1e6:.1f} MB")
    sentence = text[text.index("This page holds") :]
    print(sentence[: sentence.index("</p>")])


if __name__ == "__main__":
    main()
