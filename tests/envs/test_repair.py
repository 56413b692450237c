"""The repair setting: which failure is shown, what of it, and what stays hidden."""

import json

import pytest

from cef_env.envs import RepairEnv
from cef_env.envs.text import fenced
from cef_env.errors import UserError
from cef_env.judge import Judge, JudgeResult, Outcome, TestResult, Verdict
from cef_env.problems import Problem, ProblemSet, Submission, load
from tests.envs.stubs import shown

GOOD = "print(2 * int(input()))"
LONG_WRONG = "n = int(input())\nprint(2 * n if n < 10 else 'eleven')"
SHORT_WRONG = "print(2 * int(input()) + 1)"
SLOW = "n = int(input())\nwhile n > 10**20: pass\nprint(2 * n)"


def problem(*submissions: Submission) -> Problem:
    base = shown()
    return Problem(base.id, base.title, base.statement, base.tests, time_limit_s=0.3, submissions=submissions)


def submission(program: str, *expected: str) -> Submission:
    return Submission("bug", program, expected)


def repair(judge: Judge, *submissions: Submission, **arguments: object) -> RepairEnv:
    return RepairEnv(problems=[problem(*submissions)], judge=judge, **arguments)  # type: ignore[arg-type]


def given(program: str) -> dict[str, object]:
    return {"problem_id": "shown", "program": program}


def test_an_episode_from_a_failure_to_its_repair(judge: Judge) -> None:
    env = repair(judge, submission(GOOD, "correct"), submission(LONG_WRONG, "correctness_failure"))
    observation, info = env.reset(seed=0)
    assert fenced(LONG_WRONG) in observation
    assert "Outcome: correctness_failure\nTests accepted before the first failure: 1 of 3" in observation
    assert "First failing test: wrong_answer, input of 0 to 9 characters" in observation
    assert (info["failed_outcome"], info["failed_kind"]) == ("correctness_failure", "bug")
    observation, reward, terminated, truncated, info = env.step(fenced(GOOD))
    assert (observation, reward, terminated, truncated) == ("Outcome: correct\n", 1.0, True, False)
    assert info["failed_outcome"] == "correctness_failure"


def test_an_exceeded_limit_is_told_in_words(judge: Judge) -> None:
    observation, info = repair(judge).reset(options=given(SLOW))
    assert info["failed_outcome"] == "optimization_failure"
    assert "CPU time there: over the limit of 0.3 s" in observation
    assert "Memory there: under a tenth of the limit of 256 MiB" in observation


def test_measurements_are_shown_when_asked_for() -> None:
    test = TestResult(1, Verdict.WRONG_ANSWER, 0.1234, 0.2, 7.5)
    result = JudgeResult("shown", Outcome.CORRECTNESS_FAILURE, (test,), (1, 2))
    env = RepairEnv(problems=[problem()], statistics="exact")
    observation, _ = env.reset(
        options={**given(SHORT_WRONG), "result": json.loads(json.dumps(result.to_json()))}
    )
    assert "CPU time there: 0.123 s, limit 0.3 s" in observation
    assert "Memory there: 7.500 MiB, limit 256 MiB" in observation


@pytest.mark.parametrize(
    ("reveal", "program", "visible"),
    [
        ("samples", SHORT_WRONG, True),
        ("samples", LONG_WRONG, False),
        ("nothing", SHORT_WRONG, False),
        ("all", LONG_WRONG, True),
    ],
)
def test_only_the_failing_test_that_may_be_shown_is(
    judge: Judge, reveal: str, program: str, visible: bool
) -> None:
    observation, _ = repair(judge, reveal=reveal).reset(options=given(program))
    assert ("Expected output:" in observation) is visible
    assert ("What went wrong:" in observation) is visible
    assert ("424242" in observation) is (reveal == "all")


def test_a_crash_does_not_give_a_hidden_input_away(judge: Judge) -> None:
    observation, _ = repair(judge).reset(
        options=given("n = input()\nif n != '1': raise ValueError(n)\nprint(2)")
    )
    assert "runtime_error" in observation
    assert "424242" not in observation


def test_a_program_that_does_not_compile_is_told_so(judge: Judge) -> None:
    observation, _ = repair(judge).reset(options=given("print(1"))
    assert "It does not compile: SyntaxError" in observation


def test_the_seed_chooses_problem_and_failure(judge: Judge) -> None:
    def played() -> list[str]:
        env = RepairEnv(problems=load("builtin:hard?count=6"), judge=judge)
        return [env.reset(seed=seed)[0] for seed in range(6)]

    first = played()
    assert first == played()
    assert len(set(first)) > 2


def test_submissions_that_pass_at_the_coverage_are_no_failures(judge: Judge) -> None:
    slow = submission(SLOW, "optimization_failure")
    with pytest.raises(UserError, match="fails at coverage 1"):
        repair(judge, slow, coverage=1).reset(seed=0)
    assert repair(judge, slow).reset(seed=0)[1]["failed_outcome"] == "optimization_failure"


def test_problems_without_a_failure_are_passed_over(judge: Judge) -> None:
    other = Problem("other", "O", "Nothing.", problem().tests)
    problems = ProblemSet.of([other, problem(submission(SHORT_WRONG, "correctness_failure"))])
    env = RepairEnv(problems=problems, judge=judge)
    assert {env.reset(seed=seed)[1]["problem_id"] for seed in range(4)} == {"shown"}
    with pytest.raises(UserError, match="problem 'other' carries no labelled submission"):
        env.reset(options={"problem_id": "other"})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"program": "x"}, "needs problem_id"),
        ({"problem_id": "shown", "program": 3}, "program is int"),
        ({"problem_id": "shown", "result": {}}, "program is NoneType"),
        ({"problem_id": "shown", "program": "x", "result": {}}, "not a JudgeResult"),
        ({"problem_id": "shown", "program": "x", "result": 3}, "not a JudgeResult"),
        ({"problem_id": "shown", "program": GOOD}, "passes the tests"),
    ],
)
def test_options_that_give_no_failure_are_refused(
    judge: Judge, options: dict[str, object], named: str
) -> None:
    with pytest.raises(UserError, match=named):
        repair(judge).reset(options=options)


@pytest.mark.parametrize(
    "result",
    [
        JudgeResult("else", Outcome.CORRECTNESS_FAILURE, (), (1,), compile_error="no"),
        JudgeResult("shown", Outcome.CORRECT, (), (1, 2)),
        JudgeResult(
            "shown", Outcome.CORRECTNESS_FAILURE, (TestResult(9, Verdict.WRONG_ANSWER, 0, 0, 0),), (1, 2)
        ),
    ],
    ids=["of another problem", "correct", "of other tests"],
)
def test_results_that_do_not_fit_are_refused(judge: Judge, result: JudgeResult) -> None:
    with pytest.raises(UserError, match="reset option result"):
        repair(judge).reset(options={**given("x"), "result": result})


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(UserError, match="reveal='some'"):
        RepairEnv(problems=[problem()], reveal="some")
    with pytest.raises(UserError, match="statistics='rough'"):
        RepairEnv(problems=[problem()], statistics="rough")


def test_problems_without_a_failing_program_are_dropped_and_counted() -> None:
    def of(id_: str, *submissions: Submission) -> Problem:
        base = problem(*submissions)
        return Problem(id_, base.title, base.statement, base.tests, submissions=submissions)

    problems = [
        of("wrong", submission(SHORT_WRONG, "correctness_failure")),
        of("none"),
        of("right", submission(GOOD, "correct")),
        of("unknown", submission(LONG_WRONG)),
        of("other", Submission("bug", "int main() {}", ("correctness_failure",), "cpp17")),
    ]
    env = RepairEnv(problems=problems)
    assert env.dropped == 4
    assert RepairEnv(problems=problems[:1]).dropped == 0
