"""Hostile programs: the right verdict on every tier, and nothing left behind."""

import time

import pytest

from cef_env.judge import Judge, JudgeResult, Verdict
from tests.judge.adversarial import EXPECTED, HOSTILE, Hostile
from tests.judge.helpers import TIERS, make_problem, tier_or_skip
from tests.judge.traces import descendants, traces

# Two tests, so that the second one meets whatever the first one left.
PROBLEM = make_problem(("1\n", EXPECTED), ("12\n", EXPECTED), time_limit_s=0.4)


@pytest.fixture(scope="module", params=TIERS)
def results(request: pytest.FixtureRequest) -> dict[str, JudgeResult]:
    """All hostile programs judged, interleaved over two boxes; checks the host before and after."""
    tier_or_skip(request.param)
    before = descendants()
    with Judge(workers=2, sandbox=request.param) as judge:
        results = judge.map([(PROBLEM, hostile.program) for hostile in HOSTILE])
        assert judge.run(PROBLEM, f"print({EXPECTED!r})").reward() == 1
        # Two warm boxes of two processes each, and nothing else, once the last program has left.
        deadline = time.monotonic() + 2
        while len(descendants() - before) > 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(descendants() - before) <= 4
    return dict(zip((hostile.name for hostile in HOSTILE), results))


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
def test_hostile_program_gets_the_right_verdict(hostile: Hostile, results: dict[str, JudgeResult]) -> None:
    result = results[hostile.name]
    if hostile.compile_error:
        assert result.compile_error
    else:
        assert result.compile_error is None
        verdict = result.failed.verdict if result.failed else Verdict.ACCEPTED
        assert verdict in hostile.right(result.tier), result.tests


@pytest.mark.parametrize("tier", TIERS)
def test_nothing_is_left_on_the_host(tier: str) -> None:
    tier_or_skip(tier)

    with Judge(workers=2, sandbox=tier) as judge:
        judge.run(PROBLEM, "")  # the thread that starts boxes stays
    before = traces()
    with Judge(workers=2, sandbox=tier) as judge:
        chosen = [h.program for h in HOSTILE if h.name not in ("sleep", "fork_bomb")]
        judge.map([(PROBLEM, program) for program in chosen])
    deadline = time.monotonic() + 2  # a process that has let go of everything may be a zombie for a moment
    while traces() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert traces() == before


def test_crash_kinds_are_told_apart(judge: Judge) -> None:
    details = {
        name: judge.run(PROBLEM, next(h.program for h in HOSTILE if h.name == name)).tests[0].detail
        for name in ("segfault", "abort")
    }
    assert details == {"segfault": "killed by SIGSEGV", "abort": "killed by SIGABRT"}


def test_the_expected_output_is_nowhere_in_the_sandbox(judge: Judge) -> None:
    """The program searches every object and frame it can reach; it must find its input only."""
    program = r"""
import gc, re, sys
pattern = re.compile(r"needle-[0-9a-f]{8}")
found = set()
def look(value):
    found.update(pattern.findall(repr(value)[:2_000_000]))
frame = sys._getframe()
while frame:
    look(frame.f_locals)
    look({k: v for k, v in frame.f_globals.items() if k != "found"})
    frame = frame.f_back
gc.unfreeze()
for value in gc.get_objects():
    if isinstance(value, (dict, list, tuple, set)) and value is not found:
        try: look(value)
        except Exception: pass
look(sys.stdin.read())
print(" ".join(sorted(found)))
"""
    problem = make_problem(("needle-00000001", "needle-00000002"), time_limit_s=20)
    test = judge.run(problem, program).tests[0]
    assert test.verdict is Verdict.WRONG_ANSWER, test
    assert "printed 'needle-00000001'" in test.detail
