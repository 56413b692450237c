"""Every verdict and outcome, from programs that really run."""

import pytest

from cef_env.errors import UserError
from cef_env.judge import Judge, Outcome, Verdict
from tests.judge.helpers import make_problem

ECHO = "print(input())"
SUM = make_problem(("1 2", "3"), ("10 20", "30"), ("1000000 2000000", "3000000"))
GOOD = "print(sum(map(int, input().split())))"


@pytest.mark.parametrize(
    ("program", "verdict", "detail"),
    [
        (ECHO, Verdict.ACCEPTED, ""),
        ("print(input()[::-1])", Verdict.WRONG_ANSWER, "token 1: printed 'ba', expected 'ab'"),
        ("", Verdict.WRONG_ANSWER, "printed 0 tokens, expected 1"),
        ("print(input())\nprint('more')", Verdict.WRONG_ANSWER, "printed 2 tokens, expected 1"),
        ("1 / 0", Verdict.RUNTIME_ERROR, "ZeroDivisionError: division by zero"),
        ("print(input())\nraise SystemExit(3)", Verdict.RUNTIME_ERROR, "exit status 3"),
        ("exit('sorry')", Verdict.RUNTIME_ERROR, "sorry"),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
            Verdict.RUNTIME_ERROR,
            "killed by SIGTERM",
        ),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            Verdict.RUNTIME_ERROR,
            "killed by SIGKILL",
        ),
        ("while True: pass", Verdict.TIME_LIMIT, "CPU time over 0.5 s"),
        ("a = bytearray(300 << 20)\nfor i in range(0, len(a), 4096): a[i] = 1", Verdict.MEMORY_LIMIT, ""),
        ("raise MemoryError('no')", Verdict.MEMORY_LIMIT, "MemoryError: no"),
        ("while True: print('x' * 100000)", Verdict.OUTPUT_LIMIT, "printed more than 16777216 bytes"),
    ],
)
def test_verdict(judge: Judge, program: str, verdict: Verdict, detail: str) -> None:
    test = judge.run(make_problem(("ab", "ab")), program).tests[0]
    assert (test.verdict, detail in test.detail) == (verdict, True), test


def test_idle_program_is_told_from_a_busy_one(judge: Judge) -> None:
    test = judge.run(make_problem(("ab", "ab"), time_limit_s=0.1), "import time\ntime.sleep(60)").tests[0]
    assert test.verdict is Verdict.TIME_LIMIT
    assert test.detail.startswith("idle:")
    assert test.cpu_s < 0.1 < 5 < test.wall_s < 8


def test_sleeping_below_the_guard_is_no_time_limit(judge: Judge) -> None:
    program = "import time\ntime.sleep(1)\nprint(input())"
    test = judge.run(make_problem(("ab", "ab"), time_limit_s=0.2), program).tests[0]
    assert test.verdict is Verdict.ACCEPTED
    assert test.wall_s > 1 > 0.2 > test.cpu_s


def test_memory_below_the_limit_is_accepted(judge: Judge) -> None:
    program = "a = bytearray(90 << 20)\nfor i in range(0, len(a), 4096): a[i] = 1\nprint(input())"
    test = judge.run(make_problem(("ab", "ab")), program).tests[0]
    assert test.verdict is Verdict.ACCEPTED
    assert 85 < test.memory_mb < 128


def test_empty_expected_output_does_not_excuse_a_crash(judge: Judge) -> None:
    problem = make_problem(("ab", ""))
    assert judge.run(problem, "1 / 0").tests[0].verdict is Verdict.RUNTIME_ERROR
    assert judge.run(problem, "").outcome is Outcome.CORRECT


def test_outcomes(judge: Judge) -> None:
    slow_when_large = "n = sum(map(int, input().split()))\nwhile n > 100: pass\nprint(n)"
    wrong_when_large = "n = sum(map(int, input().split()))\nprint(n if n < 100 else 0)"
    hang = "while True: pass"
    assert judge.run(SUM, GOOD).outcome is Outcome.CORRECT
    assert judge.run(SUM, slow_when_large).outcome is Outcome.OPTIMIZATION_FAILURE
    assert judge.run(SUM, wrong_when_large).outcome is Outcome.CORRECTNESS_FAILURE
    assert judge.run(SUM, hang).outcome is Outcome.CORRECTNESS_FAILURE
    broken = judge.run(SUM, "print(")
    assert (broken.outcome, broken.tests) == (Outcome.CORRECTNESS_FAILURE, ())
    assert broken.compile_error == "SyntaxError: '(' was never closed (main.py, line 1)"
    assert [broken.reward(k) for k in (1, 2, None)] == [0, 0, 0]


def test_one_run_gives_the_reward_of_every_coverage(judge: Judge) -> None:
    cases = [("1 " * n, str(n)) for n in (2, 20, 200, 2000)]  # lengths 4, 40, 400, 4000
    problem = make_problem(*cases)
    assert problem.levels == (1, 2, 3, 4)
    for good_up_to, rewards in (
        (2, [1, 0, 0, 0]),
        (200, [1, 1, 1, 0]),
        (2000, [1, 1, 1, 1]),
        (0, [0, 0, 0, 0]),
    ):
        program = f"n = sum(map(int, input().split()))\nprint(n if n <= {good_up_to} else 'wrong')"
        result = judge.run(problem, program)
        assert [result.reward(k) for k in problem.levels] == rewards
        assert result.reward(None) == rewards[-1]
        for k in problem.levels:  # and a run that stops at k agrees
            assert judge.run(problem, program, coverage=k).reward(k) == rewards[k - 1]


def test_coverage_runs_only_its_tests(judge: Judge) -> None:
    problem = make_problem(("1", "1"), ("1" * 50, "1" * 50))
    result = judge.run(problem, ECHO, coverage=1)
    assert [test.length for test in result.tests] == [1]
    with pytest.raises(UserError, match="judged at coverage 1 only"):
        result.reward(None)


def test_exhaustive_runs_all_tests_and_lets_wrong_answers_dominate(judge: Judge) -> None:
    problem = make_problem(("1", "1"), ("22", "22"), ("333", "333"))
    program = "n = input()\nwhile n == '22': pass\nprint(n if n == '1' else 'wrong')"
    first, every = judge.run(problem, program), judge.run(problem, program, exhaustive=True)
    assert [test.verdict for test in first.tests] == [Verdict.ACCEPTED, Verdict.TIME_LIMIT]
    assert [test.verdict for test in every.tests] == [*(t.verdict for t in first.tests), Verdict.WRONG_ANSWER]
    assert (first.outcome, every.outcome) == (Outcome.OPTIMIZATION_FAILURE, Outcome.CORRECTNESS_FAILURE)


def test_checkers(judge: Judge) -> None:
    spaced = "print('a   b')\nprint()"
    assert judge.run(make_problem(("x", "a b\n")), spaced).outcome is Outcome.CORRECT
    assert judge.run(make_problem(("x", "a b\n"), checker="lines"), spaced).outcome is not Outcome.CORRECT
    assert judge.run(make_problem(("x", "a   b"), checker="lines"), spaced).outcome is Outcome.CORRECT
    with pytest.raises(UserError, match="checker='exactly': use floats, json, lines or tokens"):
        judge.run(make_problem(("x", "a"), checker="exactly"), spaced)


def test_a_problem_without_small_tests_is_an_error(judge: Judge) -> None:
    with pytest.raises(UserError, match="no test under 10\\^1 characters; its smallest coverage is 2"):
        judge.run(make_problem(("1" * 20, "1")), ECHO, coverage=1)


def test_big_input_and_output(judge: Judge) -> None:
    text = " ".join(["12345"] * 300_000)
    program = "import sys\nprint(len(sys.stdin.read().split()))\nprint('7 ' * 1_000_000)"
    result = judge.run(make_problem((text, "300000\n" + "7 " * 1_000_000), time_limit_s=5), program)
    assert result.outcome is Outcome.CORRECT, result.tests


OWN_STDOUT = """
import os, sys
class Out:
    def __init__(self): self.parts = []
    def write(self, text): self.parts.append(text)
    def flush(self): os.write(1, "".join(self.parts).encode()); self.parts = []
sys.stdout = Out()
print(input())
"""


@pytest.mark.parametrize(
    ("program", "reward"),
    [
        (OWN_STDOUT, 1),
        ("import sys\nprint(input())\nsys.stdout.close()", 1),
        ("import sys\nprint(input(), flush=True)\nsys.stdout = None", 1),
        ("import sys\nprint(input())\nsys.exit(2**70)", 0),
    ],
)
def test_stdout_and_status_end_as_in_cpython(judge: Judge, program: str, reward: int) -> None:
    assert judge.run(make_problem(("1", "1"), ("22", "22")), program).reward() == reward


def test_control_characters_in_a_detail_are_visible_and_harmless(judge: Judge) -> None:
    program = "import sys\nsys.stderr.write('\\x1b[31mred\\x07 \\u202e ü\\n')\nsys.exit(1)"
    assert judge.run(make_problem(("1", "1")), program).tests[0].detail == r"\x1b[31mred\x07 \u202e ü"
