"""Problems whose program is a function, from the sandbox to the verdict."""

import json

import pytest

from cef_env.errors import JudgeError, UserError
from cef_env.judge import Judge, Outcome, Verdict
from cef_env.problems import CheckerProgram, Problem
from tests.judge.helpers import make_problem


def function_problem(*tests: tuple[list[object], object], **fields: object) -> Problem:
    texts = [("\n".join(map(json.dumps, arguments)), json.dumps(value)) for arguments, value in tests]
    return make_problem(*texts, function="solve", **fields)


ADD = function_problem(([1, [2]], [1, 2]), ([10, [20, 30]], [10, 20, 30]))
METHOD = "class Solution:\n    def solve(self, a: int, b: List[int]) -> List[int]:\n        {}"


@pytest.mark.parametrize(
    ("program", "verdicts", "detail"),
    [
        (METHOD.format("return [a] + b"), "accepted accepted", ""),
        (METHOD.format("return (a, *b)"), "accepted accepted", ""),
        (METHOD.format("print('noise')\n        return [a] + b"), "accepted accepted", ""),
        ("import os\nprint('x', flush=True)\nos.write(1, b'y')\ndef solve(a, b, c=0):\n    b.insert(0, a)\n    os.system('echo z')\n    return b", "accepted accepted", ""),
        (METHOD.format("return [a] if b == [20, 30] else [a] + b"), "accepted wrong_answer", "answer has 1 elements, expected 3"),
        (METHOD.format("print([a] + b)"), "wrong_answer", "answer is None, expected a list of 2"),
        (METHOD.format("return {a, *b}"), "runtime_error", "TypeError: Object of type set is not JSON serializable"),
        (METHOD.format("return [a] + b if a < 5 else 1 // 0"), "accepted runtime_error", "ZeroDivisionError"),
        ("def other(a, b): pass", "runtime_error", "NameError: the program defines neither Solution.solve nor a function solve"),
        ("def solve(a): return a", "runtime_error", "TypeError: solve() takes 1 positional argument but 2 were given"),
        ("def solve(a, b):\n    import sys\n    sys.exit(0)", "wrong_answer", "the answer is not JSON"),
        ("def solve(a, b):\n    while True: pass", "time_limit", "CPU time"),
        ("def solve(a, b):\n    return input()", "runtime_error", "EOFError"),
        ("import os\nos._exit(0)", "wrong_answer", "the answer is not JSON"),
        ("def solve(a, b): return 'x' * (20 << 20)", "output_limit", "printed more than"),
        ("def solve(a, b): return float('nan')", "wrong_answer", "NaN equals nothing"),
        ("if __name__ == '__main__':\n    1 / 0\ndef solve(a, b): return [a] + b", "accepted accepted", ""),
    ],
)  # fmt: skip
def test_verdicts(judge: Judge, program: str, verdicts: str, detail: str) -> None:
    tests = judge.run(ADD, program).tests
    assert " ".join(test.verdict for test in tests) == verdicts, tests
    assert detail in tests[-1].detail


def test_values_of_every_kind(judge: Judge) -> None:
    values: list[object] = [None, True, 2**70, 1.5, "é\u2028\n\\", [], {"a": [1, {}]}]
    problem = function_problem(*[([value], value) for value in values])
    assert judge.run(problem, "def solve(x):\n    return x").outcome is Outcome.CORRECT
    nothing = make_problem(("", "7"), function="solve")
    assert judge.run(nothing, "def solve():\n    return 7").outcome is Outcome.CORRECT


def test_numbers_may_be_near_when_asked(judge: Judge) -> None:
    program = "def solve(x):\n    return [x + 0.2]"
    exact = function_problem(([0.1], [0.3]))
    near = function_problem(([0.1], [0.3]), checker="json?abs=1e-9")
    assert judge.run(exact, program).tests[0].verdict is Verdict.WRONG_ANSWER
    assert judge.run(near, program).outcome is Outcome.CORRECT


def test_deep_recursion_and_deep_answers(judge: Judge) -> None:
    problem = function_problem(([20_000], 20_000), time_limit_s=5)
    assert (
        judge.run(problem, "def solve(n):\n    return 1 + solve(n - 1) if n else 0").outcome
        is Outcome.CORRECT
    )
    deep = "def solve(n):\n    a = []\n    for _ in range(n): a = [a]\n    return a"
    test = judge.run(problem, deep).tests[0]
    assert test.verdict in (Verdict.RUNTIME_ERROR, Verdict.WRONG_ANSWER), test


def test_an_expected_output_that_is_no_json_is_a_judge_error(judge: Judge) -> None:
    with pytest.raises(JudgeError, match="checker 'json' failed on 'p'"):
        judge.run(make_problem(("1", "[1"), function="solve"), "def solve(x): return x")


def test_a_checker_program_sees_the_json(judge: Judge) -> None:
    source = "import json, sys\nsys.exit(sorted(json.load(open('output'))) != json.load(open('answer')))"
    problem = function_problem(([3], [0, 1, 2]), checker_program=CheckerProgram("testlib", source, "python"))
    assert judge.run(problem, "def solve(n): return list(range(n))[::-1]").reward() == 1
    assert judge.run(problem, "def solve(n): return [0]").reward() == 0


def test_functions_are_python(judge: Judge) -> None:
    with pytest.raises(UserError, match="problem 'p' asks for a function, so language=cpp17 is not possible"):
        judge.run(ADD, "int main() {}", language="cpp17")
