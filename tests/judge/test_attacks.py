"""Attacks on the judge that once worked, and idioms that once failed: one property each."""

import subprocess
import sys
import time

import pytest

from cef_env.errors import CheckerError, UserError
from cef_env.files import cache_folder
from cef_env.judge import Judge, Outcome
from cef_env.judge.checkers import get_checker
from cef_env.problems import Problem
from cef_env.problems.types import CheckerProgram
from cef_env.sandbox.users import choices, draw_user
from tests.judge.helpers import make_problem, tier_or_skip

PYTHON_CHECKER = """
import sys
_, output, answer = (open(name).read() for name in sys.argv[1:4])
if output.split() == answer.split():
    sys.exit(0)
print(f"expected {answer.strip()}, found {output.strip()}", file=sys.stderr)
sys.exit(1)
"""
READS_N_NUMBERS = """
#include "testlib.h"
int main(int argc, char **argv) {
    registerTestlibCmd(argc, argv);
    std::vector<int> values(ouf.readInt());
    for (int &value : values) value = ouf.readInt();
    quitf(_ok, "fine");
}
"""
READS_A_WORD = """
#include "testlib.h"
int main(int argc, char **argv) {
    registerTestlibCmd(argc, argv);
    if (ouf.readToken("[a-z]+") != ans.readToken()) quitf(_wa, "another word");
    quitf(_ok, "fine");
}
"""
ECHOES = """
#include <fstream>
#include <iostream>
int main(int, char **argv) {
    std::ifstream answer(argv[2]);
    std::string wanted, got;
    answer >> wanted, std::cin >> got;
    if (wanted == got) return 42;
    std::ofstream(std::string(argv[3]) + "judgemessage.txt") << "expected " << wanted << ", found " << got;
    return 43;
}
"""
BURNS_IN_FORGOTTEN_CHILDREN = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)   # the kernel then adds their times to nobody's
for _ in range(2):
    if os.fork() == 0:
        start = time.process_time()
        while time.process_time() - start < 0.12:
            pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
print(1)
"""
FILLS_MEMORY_IN_A_FORGOTTEN_CHILD = """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    data = b"x" * (400 << 20)
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass
print(1)
"""


def outcome(problem: Problem, program: str, **options: object) -> Outcome:
    judge = {key: options.pop(key) for key in ("sandbox", "packages") if key in options}
    with Judge(workers=1, **judge) as instrument:  # type: ignore[arg-type]
        return instrument.run(problem, program, **options).outcome  # type: ignore[arg-type]


def test_a_long_token_that_is_no_number_is_refused_in_linear_time() -> None:
    checker = get_checker("floats?abs=1e-6")

    def seconds(length: int) -> float:
        start = time.process_time()
        assert checker(b"1" * length + b"x", b"0.5") is not None
        return time.process_time() - start

    seconds(100)
    assert seconds(8000) < 8 * (seconds(1000) + 0.002)  # quadratic: 64 times


@pytest.mark.parametrize("tier", ["rlimits", "landlock"])
def test_cpu_time_of_children_that_nobody_waits_for_counts(tier: str) -> None:
    tier_or_skip(tier)
    problem = make_problem(("1", "1"), time_limit_s=0.1)
    assert outcome(problem, BURNS_IN_FORGOTTEN_CHILDREN, sandbox=tier) is not Outcome.CORRECT


@pytest.mark.parametrize("tier", ["rlimits", "landlock"])
def test_memory_of_children_that_nobody_waits_for_counts(tier: str) -> None:
    tier_or_skip(tier)
    problem = make_problem(("1", "1"), time_limit_s=5.0, memory_limit_mb=64)
    assert outcome(problem, FILLS_MEMORY_IN_A_FORGOTTEN_CHILD, sandbox=tier) is not Outcome.CORRECT


@pytest.mark.parametrize(
    ("checker", "program"),
    [
        (CheckerProgram("testlib", PYTHON_CHECKER, "python"), "print('Traceback (most recent call last)')"),
        (CheckerProgram("testlib", PYTHON_CHECKER, "python"), "import os\nos.write(1, b'\\xff')"),
        (CheckerProgram("testlib", PYTHON_CHECKER, "python"), "print('x' * ((16 << 20) - 2))"),
        (CheckerProgram("testlib", READS_A_WORD), "print('a' * ((16 << 20) - 2))"),
        (CheckerProgram("icpc", ECHOES), "print('a' * ((16 << 20) - 2))"),
    ],
    ids=["traceback", "not_utf8", "echo", "long_word", "icpc_echo"],
)
def test_no_output_makes_the_instrument_fail(checker: CheckerProgram, program: str) -> None:
    problem = make_problem(("1", "1"), checker_program=checker, time_limit_s=5.0)
    assert outcome(problem, program) is Outcome.CORRECTNESS_FAILURE


@pytest.mark.parametrize("tier", ["cgroups", "rlimits", "landlock"])
def test_lazy_parts_of_a_package_can_be_imported(tier: str) -> None:
    tier_or_skip(tier)
    problem = make_problem(("1", "1"), time_limit_s=5.0)
    program = "import numpy as np\nnp.random.rand(2), np.fft.fft([1.0])\nprint(1)"
    assert outcome(problem, program, sandbox=tier, packages=("numpy",)) is Outcome.CORRECT


def test_deep_recursion_may_use_the_memory_limit() -> None:
    source = """
        #include <cstdio>
        long down(long n) { volatile char frame[64]; frame[0] = char(n);
                            long below = n ? 1 + down(n - 1) : 0; return below + frame[0] * 0; }
        int main() { std::printf("%d", down(4000000) > 0); }
    """
    problem = make_problem(("1", "1"), time_limit_s=5.0, memory_limit_mb=1024)
    assert outcome(problem, source, language="cpp17") is Outcome.CORRECT


def test_an_expected_output_of_any_size_can_be_printed() -> None:
    text = "x" * ((16 << 20) + 10)
    problem = make_problem(("1", text), time_limit_s=5.0, memory_limit_mb=512)
    assert outcome(problem, "print('x' * ((16 << 20) + 10))") is Outcome.CORRECT


def test_locale_of_the_environment_exists() -> None:
    assert (
        outcome(make_problem(("1", "1")), "import locale\nlocale.setlocale(locale.LC_ALL, '')\nprint(1)")
        == "correct"
    )


def test_a_program_can_read_its_own_source() -> None:
    assert outcome(make_problem(("1", "1")), "open(__file__).read()\nprint(1)") == "correct"


def test_boxes_have_different_users() -> None:
    """Where rlimits count processes, they count those of a user: two boxes must not share one."""
    drawn = [draw_user() for _ in range(50)]
    assert len(set(drawn)) == 50
    assert set(drawn) <= set(choices()) if len(choices()) < 10**6 else min(drawn) in choices()


@pytest.mark.parametrize("value", ["10**9", "'9' * 5000"])
def test_a_senseless_coverage_is_refused(value: str) -> None:
    code = (
        "from tests.judge.helpers import make_problem\nfrom cef_env.errors import CheckerError, UserError\n"
    )
    code += "from cef_env.problems import parse_coverage\n"
    code += f"try: make_problem(('1', '1')).coverage(parse_coverage({value}))\nexcept UserError: pass"
    assert (
        subprocess.run([sys.executable, "-c", code], timeout=20, check=False).returncode == 0
    )  # 10**k is not made


def test_a_senseless_speed_factor_is_refused() -> None:
    with pytest.raises(UserError):
        Judge(workers=1, speed_factor=1e300).run(make_problem(("1", "1")), "print(1)")


def test_cpp_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: (_ for _ in ()).throw(KeyError(uid)))
    assert str(cache_folder("compiled")).startswith("/nonexistent")


def test_long_arguments_of_a_checker_are_refused() -> None:
    with pytest.raises(UserError, match="arguments of more than"):
        CheckerProgram("testlib", "import sys; sys.exit(0)", "python", ("x" * 70_000,))


@pytest.mark.parametrize("program", ["print(2000000000)", "print(-1)"], ids=["huge", "negative"])
def test_a_checker_that_crashes_on_an_output_is_at_fault_itself(program: str) -> None:
    """It trusts a number that it reads; nobody can tell its crash from one on a right output."""
    problem = make_problem(("1", "1"), checker_program=CheckerProgram("testlib", READS_N_NUMBERS))
    with pytest.raises(CheckerError):
        outcome(problem, program)
