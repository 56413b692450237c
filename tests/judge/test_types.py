"""The rules of the taxonomy and of nested rewards, for every possible result."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.judge import FormatErrorCause, JudgeResult, Outcome, TestResult, Verdict, classify
from cef_env.judge.types import LIMIT_VERDICTS
from cef_env.problems.types import coverage_level

verdicts = st.sampled_from(list(Verdict))
full_runs = st.lists(st.tuples(st.integers(0, 10**6), verdicts), min_size=1, max_size=12).map(
    lambda items: [TestResult(n, v, 0.1, 0.2, 3.0) for n, v in sorted(items, key=lambda item: item[0])]
)


def levels_of(tests: list[TestResult]) -> tuple[int, ...]:
    return tuple(sorted({coverage_level(test.length) for test in tests}))


def first_failure(tests: list[TestResult]) -> list[TestResult]:
    """What a run that stops at the first failure sees of `tests`."""
    seen = []
    for test in tests:
        seen.append(test)
        if test.verdict is not Verdict.ACCEPTED:
            break
    return seen


def result_of(tests: list[TestResult], levels: tuple[int, ...], **fields: object) -> JudgeResult:
    return JudgeResult("p", classify(tests), tuple(tests), levels, **fields)  # type: ignore[arg-type]


@given(full_runs)
def test_outcome_follows_the_first_failure(tests: list[TestResult]) -> None:
    seen = first_failure(tests)
    outcome = classify(seen)
    last = seen[-1].verdict
    if all(test.verdict is Verdict.ACCEPTED for test in tests):
        assert outcome is Outcome.CORRECT
    elif last in LIMIT_VERDICTS and len(seen) > 1:
        assert outcome is Outcome.OPTIMIZATION_FAILURE
    else:
        assert outcome is Outcome.CORRECTNESS_FAILURE
    assert classify(seen, compile_error=True) is Outcome.CORRECTNESS_FAILURE


@given(full_runs)
def test_exhaustive_runs_are_never_kinder(tests: list[TestResult]) -> None:
    order = [Outcome.CORRECT, Outcome.OPTIMIZATION_FAILURE, Outcome.CORRECTNESS_FAILURE]
    assert order.index(classify(tests)) >= order.index(classify(first_failure(tests)))


@given(full_runs)
def test_rewards_are_the_definition_and_nested(tests: list[TestResult]) -> None:
    levels = levels_of(tests)
    result = result_of(first_failure(tests), levels)
    for k in range(levels[0], levels[-1] + 3):
        subset = [test for test in tests if test.length < 10**k]
        assert result.reward(k) == int(all(test.verdict is Verdict.ACCEPTED for test in subset))
    rewards = [result.reward(k) for k in levels] + [result.reward(None)]
    assert rewards == sorted(rewards, reverse=True)
    assert result.reward(None) == int(result.outcome is Outcome.CORRECT) == result.reward(levels[-1])
    assert result.coverage_reached == max((k for k in levels if result.reward(k)), default=0)


@given(full_runs, st.integers(1, 7))
def test_a_run_at_one_coverage_agrees_or_refuses(tests: list[TestResult], coverage: int) -> None:
    levels = levels_of(tests)
    subset = [test for test in tests if test.length < 10**coverage]
    if not subset:
        return
    full = result_of(first_failure(tests), levels)
    part = result_of(first_failure(subset), levels, coverage=coverage)
    for k in [*range(levels[0], 8), None]:
        try:
            assert part.reward(k) == full.reward(k)
        except UserError:
            assert part.outcome is Outcome.CORRECT
            assert k is None or k > coverage
    assert part.reward(coverage) == full.reward(coverage)


@given(full_runs)
def test_json_round_trip(tests: list[TestResult]) -> None:
    result = result_of(tests, levels_of(tests), exhaustive=True)
    assert JudgeResult.from_json(result.to_json()) == result


def test_no_program_is_a_format_error_with_its_cause() -> None:
    result = JudgeResult.no_program("p", (2, 3), FormatErrorCause.OUT_OF_TOKENS)
    assert result.outcome is Outcome.FORMAT_ERROR
    assert [result.reward(k) for k in (2, 3, None)] == [0, 0, 0]
    assert (result.coverage_reached, result.failed) == (0, None)
    assert JudgeResult.from_json(result.to_json()) == result
    with pytest.raises(UserError, match="no test under 10\\^1"):
        result.reward(1)
