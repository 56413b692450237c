"""Answers that only the right comparison accepts: checkers, checker programs, function-style problems.

Checker programs in C++ need a compiler, as C++ programs do: they are marked with its language.
"""

from dataclasses import replace

from cef_env.judge.corpus.labelled import (
    ACCEPTED,
    RUNTIME_ERROR,
    TIME_LIMIT,
    WRONG_ANSWER,
    Labelled,
    small_problem,
)
from cef_env.problems.types import CheckerProgram

THIRD = replace(small_problem(("1\n", "0.333333 ok\n")), checker="floats?abs=1e-5")
WORDS = replace(small_problem(("1\n", "Yes\n")), checker="tokens?case=ignore")
LINES = replace(small_problem(("1\n", "a b\nc\n")), checker="lines?order=any")

SPLIT = "print a and b with a + b = n"
"""Any two numbers with the right sum: a problem that no single expected output can judge."""
ICPC = """
import sys
n = int(open(sys.argv[1]).read())
answer = sys.stdin.read().split()
good = len(answer) == 2 and all(part.lstrip("-").isdigit() for part in answer)
if not good or sum(map(int, answer)) != n:
    open(sys.argv[3] + "/judgemessage.txt", "w").write("not a split of " + str(n))
    sys.exit(43)
sys.exit(42)
"""
TESTLIB = """
#include "testlib.h"
int main(int argc, char* argv[]) {
    registerTestlibCmd(argc, argv);
    int n = inf.readInt();
    int a = ouf.readInt(), b = ouf.readInt();
    if (a + b != n) quitf(_wa, "%d + %d is not %d", a, b, n);
    quitf(_ok, "a split of %d", n);
}
"""
BY_ICPC = replace(
    small_problem(("10\n", SPLIT)), checker="icpc", checker_program=CheckerProgram("icpc", ICPC, "python")
)
BY_TESTLIB = replace(
    small_problem(("10\n", SPLIT)),
    checker="testlib",
    checker_program=CheckerProgram("testlib", TESTLIB, "cpp17"),
)
FUNCTION = replace(
    small_problem(("[1, 2, 3]\n10\n", "[10, 20, 30]"), ("[1, 1, 1, 1]\n0\n", "[0, 0, 0, 0]")),
    checker="json",
    function="scale",
)

PROGRAMS: tuple[Labelled, ...] = (
    Labelled("float_within_tolerance", "print(1 / 3, 'ok')", THIRD, ACCEPTED),
    Labelled("float_beyond_tolerance", "print(0.3334, 'ok')", THIRD, WRONG_ANSWER),
    Labelled("float_nan", "print('nan ok')", THIRD, WRONG_ANSWER),
    Labelled("word_in_other_case", "print('YES')", WORDS, ACCEPTED),
    Labelled("lines_in_other_order", "print('c')\nprint('a b')", LINES, ACCEPTED),
    Labelled("lines_in_other_order_one_missing", "print('c')", LINES, WRONG_ANSWER),
    Labelled("icpc_another_right_answer", "n = int(input())\nprint(n - 3, 3)", BY_ICPC, ACCEPTED),
    Labelled("icpc_wrong", "n = int(input())\nprint(n, 3)", BY_ICPC, WRONG_ANSWER),
    Labelled("icpc_nothing_printed", "", BY_ICPC, WRONG_ANSWER),
    Labelled("icpc_crash_after_the_answer", "print(7, 3)\n1 / 0", BY_ICPC, RUNTIME_ERROR),
    Labelled(
        "testlib_another_right_answer",
        "#include <iostream>\nint main() { int n; std::cin >> n; std::cout << 1 << ' ' << n - 1; }",
        BY_TESTLIB,
        ACCEPTED,
        language="cpp17",
    ),
    Labelled(
        "testlib_more_than_the_answer",
        "#include <iostream>\nint main() { std::cout << 1 << ' ' << 9 << ' ' << 0; }",
        BY_TESTLIB,
        WRONG_ANSWER,
        language="cpp17",
    ),
    Labelled(
        "testlib_not_a_number",
        "#include <iostream>\nint main() { std::cout << 1 << ' ' << 'x'; }",
        BY_TESTLIB,
        WRONG_ANSWER,
        language="cpp17",
    ),
    Labelled(
        "function_of_a_class",
        "class Solution:\n    def scale(self, nums: List[int], k: int) -> List[int]:\n"
        "        print('noise')\n        return [n * k for n in nums]",
        FUNCTION,
        ACCEPTED,
    ),
    Labelled("function_plain", "def scale(nums, k): return tuple(n * k for n in nums)", FUNCTION, ACCEPTED),
    Labelled("function_wrong", "def scale(nums, k): return nums", FUNCTION, WRONG_ANSWER),
    Labelled("function_prints_instead", "def scale(nums, k): print([10, 20, 30])", FUNCTION, WRONG_ANSWER),
    Labelled("function_missing", "def other(): pass", FUNCTION, RUNTIME_ERROR),
    Labelled("function_returns_a_set", "def scale(nums, k): return {1}", FUNCTION, RUNTIME_ERROR),
    Labelled("function_never_returns", "def scale(nums, k):\n    while True: pass", FUNCTION, TIME_LIMIT),
)
