"""Ways of reading, printing and ending that real programs use and naive judges break.

The programs are those of the corpus; what one run of a program cannot show is tested below.
"""

import pytest

from cef_env.judge import Judge, Outcome
from cef_env.judge.corpus import idioms_io, idioms_language
from cef_env.judge.corpus.needs import refused
from tests.judge.helpers import TIERS, make_problem, tier_or_skip

IDIOMS = (*idioms_io.PROGRAMS, *idioms_language.PROGRAMS)


@pytest.mark.parametrize("tier", TIERS)
def test_idioms(tier: str) -> None:
    tier_or_skip(tier)
    idioms = [idiom for idiom in IDIOMS if idiom.allowed(tier) == {"accepted"}]
    assert len(idioms) > 60
    with Judge(workers=2, sandbox=tier) as judge:
        results = judge.map([(idiom.problem, idiom.program) for idiom in idioms])
    failed = {
        idiom.name: result.compile_error or result.failed
        for idiom, result in zip(idioms, results)
        if result.outcome is not Outcome.CORRECT
    }
    assert set(failed) == (refused(tier) & {idiom.name for idiom in idioms}), failed


def test_hashes_and_orders_are_the_same_in_every_run(judge: Judge) -> None:
    program = "print(hash('abc'), list({'x', 'y', 'z', 'w'}))"
    seen = {judge.run(make_problem((f"{n}", "no")), program).tests[0].detail for n in range(3)}
    assert len(seen) == 1


def test_random_differs_between_runs(judge: Judge) -> None:
    program = "import random\nprint(random.random())"
    seen = {judge.run(make_problem((f"{n}", "no")), program).tests[0].detail for n in range(3)}
    assert len(seen) == 3
