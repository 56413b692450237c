"""Every labelled program gets one of its verdicts: on the strongest tier all of them, on each of the others every
third, with the first three of these all again (CEF_TEST_ALL=1: all on all, as `cef doctor --sandbox TIER`)."""

import dataclasses
import os
from collections import Counter
from functools import cache

import pytest

from cef_env.errors import UserError
from cef_env.judge import Judge, JudgeResult, Outcome, TestResult, Verdict
from cef_env.judge.corpus import COMPILE_ERROR, CORPUS, Labelled
from cef_env.judge.corpus.labelled import verdict_of
from cef_env.judge.corpus.needs import refused
from cef_env.sandbox.bwrap import toolchain_paths
from tests.judge.helpers import TIERS, tier_or_skip

PYTHON = [labelled for labelled in CORPUS if labelled.language == "python"]
CPP = [labelled for labelled in CORPUS if labelled.language != "python"]
SHARES = {
    tier: CORPUS if position == 0 or os.environ.get("CEF_TEST_ALL") else CORPUS[position % 3 :: 3]
    for position, tier in enumerate(TIERS)
}
CASES = [(tier, labelled) for tier, share in SHARES.items() for labelled in share]


@cache
def judged(tier: str) -> dict[str, JudgeResult]:
    """The corpus judged on one tier; without C++ where there is no compiler."""
    tier_or_skip(tier)
    share = SHARES[tier]
    python, cpp = ([one for one in programs if one in share] for programs in (PYTHON, CPP))
    with Judge(workers=4, sandbox=tier, speed_factor=1.0) as judge:
        found = judge.map([(labelled.problem, labelled.program) for labelled in python])
        try:
            toolchain_paths()
            found += judge.map([(labelled.problem, labelled.program) for labelled in cpp], language="cpp17")
        except UserError:
            assert all(labelled.language == "cpp17" for labelled in CPP)
    return dict(zip((labelled.name for labelled in [*python, *cpp]), found))


@pytest.mark.parametrize(
    ("tier", "labelled"), CASES, ids=[f"{tier}-{labelled.name}" for tier, labelled in CASES]
)
def test_labelled_program(tier: str, labelled: Labelled) -> None:
    tier_or_skip(tier)
    results = judged(tier)
    if labelled.name not in results:
        pytest.skip("no C++ compiler on this machine")
    result = results[labelled.name]
    if labelled.name in refused(result.tier):
        pytest.skip(f"beyond the documented limits of the tier {result.tier}")
    allowed = labelled.allowed(result.tier)
    assert labelled.agrees(result), (verdict_of(result), allowed, result.compile_error, result.tests)


def test_the_corpus_holds_every_verdict_in_both_languages() -> None:
    assert len({labelled.name for labelled in CORPUS}) == len(CORPUS) >= 70
    everything = {*Verdict, COMPILE_ERROR}
    for programs in (PYTHON, CPP):
        sure = Counter(labelled.label for labelled in programs)
        assert everything <= set(sure)
        assert all(labelled.verdicts <= everything and labelled.weaker <= everything for labelled in programs)
    assert len(CPP) >= 12


def test_where_tiers_differ_a_note_says_why() -> None:
    assert [labelled.name for labelled in CORPUS if labelled.weaker and not labelled.note] == []


def test_a_wrong_verdict_does_not_agree() -> None:
    """The comparison itself, on results that no program made."""
    labelled = next(labelled for labelled in CORPUS if labelled.name == "wrong_on_the_last_test_only")

    def result(*verdicts: Verdict, tier: str = "cgroups") -> JudgeResult:
        tests = tuple(TestResult(1, verdict, 0, 0, 0) for verdict in verdicts)
        return JudgeResult("p", Outcome.CORRECT, tests, (1,), tier=tier)

    right, wrong, slow = Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.TIME_LIMIT
    assert labelled.agrees(result(right, right, wrong))
    assert not labelled.agrees(result(right, right, right))
    assert not labelled.agrees(result(right, right, slow))
    assert not labelled.agrees(result(wrong))
    assert not labelled.agrees(dataclasses.replace(result(), compile_error="no"))
    children = next(labelled for labelled in CORPUS if labelled.name == "memory_of_three_children")
    assert not children.agrees(result(right))
    assert children.agrees(result(right, tier="rlimits"))
