"""Checker programs in the judge: verdicts from both styles, and no verdict from a broken checker."""

from dataclasses import replace
from pathlib import Path

import pytest

from cef_env.errors import CheckerError, UserError
from cef_env.judge import Judge, JudgeResult, Verdict
from cef_env.problems import CheckerProgram, Problem, TestCase
from tests.judge.helpers import TIERS, make_problem, tier_or_skip

PROGRAMS = Path(__file__).parent / "checker_programs"
ECHO = "print(input())"

# Python checkers: no compiler needed, so most rules are tested with them.
TESTLIB = """
import sys
given, printed, answer = (open(name).read() for name in sys.argv[1:4])
print("a checker may print")
{}
"""
ICPC = """
import sys
given, answer = (open(name).read() for name in sys.argv[1:3])
printed, rest = sys.stdin.read(), sys.argv[4:]
def say(text): open(sys.argv[3] + "judgemessage.txt", "w").write(text)
{}
"""


def codeforces(body: str, *arguments: str) -> Problem:
    return custom("testlib", TESTLIB.format(body), *arguments)


def icpc(body: str, *arguments: str) -> Problem:
    return custom("icpc", ICPC.format(body), *arguments)


def custom(
    style: str, source: str, *arguments: str, language: str = "python", given: str = "in\n"
) -> Problem:
    program = CheckerProgram(style, source, language, arguments)
    return make_problem((given, "answer\n"), checker_program=program)


def verdict(result: JudgeResult) -> tuple[Verdict, str]:
    return result.tests[0].verdict, result.tests[0].detail


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (codeforces("sys.exit((given, printed, answer) != ('in\\n', 'in\\n', 'answer\\n'))"), (Verdict.ACCEPTED, "")),
        (codeforces("sys.exit('differs from ' + answer)"), (Verdict.WRONG_ANSWER, "differs from answer")),
        (codeforces("sys.stderr.write('\\n  first \\nsecond')\nsys.exit(2)"), (Verdict.WRONG_ANSWER, "first")),
        (codeforces("sys.exit(4)"), (Verdict.WRONG_ANSWER, "the checker rejects it with status 4")),
        (codeforces("sys.exit(8)"), (Verdict.WRONG_ANSWER, "the checker rejects it with status 8")),
        (codeforces("sys.exit(sys.argv[4:] != ['a', 'b c'])", "a", "b c"), (Verdict.ACCEPTED, "")),
        (codeforces("sys.stderr.write('x' * 10000)\nsys.exit(1)"), (Verdict.WRONG_ANSWER, "x" * 200)),
        (codeforces("sys.exit(len(sys.stdin.read()))"), (Verdict.ACCEPTED, "")),
        (icpc("sys.exit(42 if (given, printed, answer) == ('in\\n', 'in\\n', 'answer\\n') else 43)"), (Verdict.ACCEPTED, "")),
        (icpc("say('too far\\nmore')\nsys.exit(43)"), (Verdict.WRONG_ANSWER, "too far")),
        (icpc("say('é' * 500)\nsys.exit(43)"), (Verdict.WRONG_ANSWER, "é" * 200)),
        (icpc("sys.exit(43)"), (Verdict.WRONG_ANSWER, "the checker rejects it with status 43")),
        (icpc("sys.exit(42 if rest == ['float_tolerance', '1e-6'] else 43)", "float_tolerance", "1e-6"), (Verdict.ACCEPTED, "")),
        (icpc("import os\nos.mkdir('feedback/judgemessage.txt')\nsys.exit(43)"), (Verdict.WRONG_ANSWER, "the checker rejects it with status 43")),
    ],
)  # fmt: skip
def test_verdicts(judge: Judge, problem: Problem, expected: tuple[Verdict, str]) -> None:
    assert verdict(judge.run(problem, ECHO)) == expected


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (codeforces("sys.stderr.write('jury\\nis wrong')\nsys.exit(3)"), "reports a fault with status 3: is wrong"),
        (codeforces("sys.exit(5)"), "awards points with status 5"),
        (codeforces("sys.stderr.write('points 1')\nsys.exit(7)"), "awards points with status 7: points 1"),
        (codeforces("sys.exit(6)"), "ended with status 6"),
        (codeforces("sys.exit(42)"), "ended with status 42"),
        (codeforces("1 / 0"), "ended with status 99: ZeroDivisionError: division by zero"),
        (codeforces("import os\nos.abort()"), "was ended by signal 6"),
        (codeforces("import os\nos.kill(os.getpid(), 9)"), "was ended by signal 9"),
        (codeforces("import os\nwhile True: os.write(1, b'x' * 100000)"), "prints more than 128 MiB"),
        (codeforces("a = []\nwhile True: a.append(bytearray(b'x' * (64 << 20)))"), "needs more than 1024 MiB"),
        (codeforces("print("), "does not compile: SyntaxError: '(' was never closed (main.py, line 5)"),
        (icpc("sys.exit(0)"), "ended with status 0"),
        (icpc("sys.exit(1)"), "ended with status 1"),
        (icpc("1 / 0"), "ended with status 99: ZeroDivisionError"),
    ],
)  # fmt: skip
def test_a_broken_checker_is_no_verdict(judge: Judge, problem: Problem, message: str) -> None:
    with pytest.raises(CheckerError) as caught:
        judge.run(problem, ECHO)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "problem 'p'" in str(caught.value)


@pytest.mark.slow
def test_a_checker_that_hangs_is_no_verdict(judge: Judge) -> None:
    with pytest.raises(CheckerError, match="the checker takes more than 10 s"):
        judge.run(codeforces("while True: pass"), ECHO)


def test_programs_that_fail_never_reach_the_checker(judge: Judge) -> None:
    problem = codeforces("sys.exit(3)")
    assert verdict(judge.run(problem, "1 / 0"))[0] is Verdict.RUNTIME_ERROR
    assert judge.run(problem, "print(").compile_error is not None


def test_a_checker_sees_all_bytes_and_a_program_sees_no_answer(judge: Judge) -> None:
    body = "sys.exit(open('output', 'rb').read() != bytes(range(256)))"
    problem = replace(custom("testlib", "import sys\n" + body), tests=(TestCase("1", "\udcff"),))
    assert judge.run(problem, "import os\nos.write(1, bytes(range(256)))").reward() == 1
    spy = "import os\nprint(sorted(os.listdir('.')))"
    assert verdict(judge.run(codeforces("sys.exit(printed)"), spy)) == (Verdict.WRONG_ANSWER, "[]")


def test_the_judge_serves_on_after_a_broken_checker(judge: Judge) -> None:
    good, broken = codeforces("sys.exit(0)"), codeforces("sys.exit(3)")
    results = judge.map(
        [(good, ECHO), (broken, ECHO), (good, ECHO + "#"), (broken, ECHO + "#")], errors="return"
    )
    assert [isinstance(result, CheckerError) for result in results] == [False, True, False, True]
    assert judge.run(good, ECHO).reward() == 1


@pytest.mark.parametrize("tier", TIERS)
def test_testlib_in_cpp(tier: str) -> None:
    tier_or_skip(tier)
    source = (PROGRAMS / "numbers.cpp").read_text()
    program = CheckerProgram("testlib", source)
    problem = make_problem(("1", "1.0000001"), ("10", "10"), ("100", "100.00001"), checker_program=program)
    with Judge(workers=1, sandbox=tier) as judge:
        result = judge.run(problem, ECHO)
        assert [test.verdict for test in result.tests] == [Verdict.ACCEPTED] * 3
        assert verdict(judge.run(problem, "print('x')")) == (
            Verdict.WRONG_ANSWER, 'wrong output format Expected double, but "x" found'
        )  # fmt: skip
        assert verdict(judge.run(problem, "print(input(), 7)"))[1].endswith(
            "Extra information in the output file"
        )
        faults = (PROGRAMS / "score.cpp").read_text()
        for kind, message in (
            ("fail", "reports a fault with status 3: FAIL jury is wrong"),
            ("crash", "was ended by signal 11"),
            ("throw", "was ended by signal 6"),
            ("flood", "prints more than 128 MiB"),
            ("memory", "the checker"),  # std::bad_alloc, or the kernel's limit
            ("partial", "ended with status 66"),
            ("exit", "reports a fault with status 3: FAIL Checker must end with quit or quitf call"),
        ):
            with pytest.raises(CheckerError, match=message):
                judge.run(custom("testlib", faults, language="cpp17", given=kind), "print()")


def test_icpc_in_cpp20(judge: Judge) -> None:
    source = """
        #include <fstream>
        #include <iostream>
        int main(int argc, char **argv) {
            std::ifstream answer(argv[2]);
            std::string wanted, found;
            answer >> wanted;
            std::cin >> found;
            if (auto same = wanted <=> found; same == 0) return 42;
            std::ofstream(argv[3] + std::string("/judgemessage.txt")) << "found " << found << "\\n";
            return 43;
        }
    """
    problem = custom("icpc", source, language="cpp20")
    assert judge.run(problem, "print('answer')").reward() == 1
    assert verdict(judge.run(problem, ECHO)) == (Verdict.WRONG_ANSWER, "found in")


def test_a_checker_that_does_not_compile_says_why(judge: Judge) -> None:
    problem = custom("testlib", '#include "testlib.h"\nint main() { return wrong; }', language="cpp17")
    with pytest.raises(
        CheckerError, match=r"the checker does not compile: main\.cpp:2:.* error: .wrong. was not declared"
    ):
        judge.run(problem, ECHO)


def test_own_headers_go_first(judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = custom("testlib", '#include "testlib.h"\nint main() { return STATUS; }', language="cpp17")
    for status, accepted in ((0, 1), (1, 0)):  # a changed header is a changed checker
        (tmp_path / "testlib.h").write_text(f"#define STATUS {status}\n")
        monkeypatch.setenv("CEF_INCLUDE", str(tmp_path))
        assert judge.run(problem, ECHO).reward() == accepted
    monkeypatch.setenv("CEF_INCLUDE", str(tmp_path / "none"))
    with pytest.raises(
        UserError, match=r"CEF_INCLUDE=.*none: No such file or directory; name a folder of headers"
    ):
        judge.run(problem, ECHO)
    for number in range(30):
        (tmp_path / f"{number}.h").touch()
    monkeypatch.setenv("CEF_INCLUDE", str(tmp_path))
    with pytest.raises(UserError, match="more than 20 headers"):
        judge.run(problem, ECHO)
