"""C++: verdicts of executables, what does not compile, and the cache of what does."""

import shutil
from pathlib import Path

import pytest

from cef_env.errors import UserError
from cef_env.judge import Judge, Outcome, Verdict, languages
from tests.judge.helpers import TIERS, make_problem, tier_or_skip

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler on this machine")

PROBLEM = make_problem(("1 2\n", "3"), ("10 20\n", "30"))
SUM = "#include <bits/stdc++.h>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b << '\\n'; }"
READ = "#include <bits/stdc++.h>\nint main() { int a, b; std::cin >> a >> b; "

VERDICTS = {
    "sum": (SUM, Verdict.ACCEPTED),
    "thread": (
        READ + "int s = 0; std::thread t([&] { s = a + b; }); t.join(); std::cout << s; }",
        Verdict.ACCEPTED,
    ),
    "deep_recursion": (
        "#include <iostream>\nint f(int n) { volatile char pad[50]; pad[0] = 0; return n ? 1 + f(n - 1) + pad[0] : 0; }\n"
        "int main() { int a, b; std::cin >> a >> b; std::cout << a + b + f(1000000) - 1000000; }",
        Verdict.ACCEPTED,
    ),
    "wrong": ("int main() {}", Verdict.WRONG_ANSWER),
    "status": (READ + "std::cout << a + b; return 3; }", Verdict.RUNTIME_ERROR),
    "segfault": ("int main() { *(volatile int*)0 = 1; }", Verdict.RUNTIME_ERROR),
    "abort": ("#include <cstdlib>\nint main() { abort(); }", Verdict.RUNTIME_ERROR),
    "uncaught": ("int main() { throw 1; }", Verdict.RUNTIME_ERROR),
    "busy": ("int main() { for (volatile int i = 0;;) i = i + 1; }", Verdict.TIME_LIMIT),
    "sleep": ("#include <unistd.h>\nint main() { for (;;) pause(); }", Verdict.TIME_LIMIT),
    "memory": (
        "#include <cstdlib>\n#include <cstring>\nint main() { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
        Verdict.MEMORY_LIMIT,
    ),
    "bad_alloc": ("#include <vector>\nint main() { std::vector<char> v(1ull << 45); }", Verdict.MEMORY_LIMIT),
    "stack_overflow": (
        "int f(int n) { volatile char pad[999]; pad[0] = n; return f(n + 1) + pad[0]; }\nint main() { return f(0); }",
        Verdict.MEMORY_LIMIT,
    ),
    "flood": (
        '#include <cstdio>\nint main() { for (;;) puts("xxxxxxxxxxxxxxxxxxxxx"); }',
        Verdict.OUTPUT_LIMIT,
    ),
    "fork_bomb": ("#include <unistd.h>\nint main() { for (;;) fork(); }", Verdict.TIME_LIMIT),
}


@pytest.mark.parametrize("tier", TIERS)
def test_verdicts_of_executables(tier: str) -> None:
    tier_or_skip(tier)
    programs = [program for program, _ in VERDICTS.values()]
    with Judge(workers=2, sandbox=tier) as judge:
        results = judge.map([(PROBLEM, program) for program in programs], language="cpp17")
    got = {name: result.tests[-1].verdict for name, result in zip(VERDICTS, results)}
    assert got == {name: verdict for name, (_, verdict) in VERDICTS.items()}


NOT_COMPILING = {
    "unknown_name": ("int main() { return x; }", "'x' was not declared"),
    "template_bomb": (
        "template <int a> struct F { typedef typename F<a + 1>::t t; };\nint main() { F<0>::t x; }",
        "template instantiation depth",
    ),
    "endless_include": ('#include "/dev/zero"\nint main() {}', "needs more than"),
    "huge_executable": (
        "int a[1 << 27] = {1};\nint main() { return a[3]; }",
        "executable is larger than 64 MiB",
    ),
    "no_main": ("int f() { return 1; }", "undefined reference to `main'"),
    "no_such_header": ('#include "/etc/passwd"\nint main() {}', "No such file"),
    "surrogate": ("int main() {} //\udc80", "not valid Unicode"),
}


def test_what_does_not_compile_is_the_fault_of_the_program(judge: Judge) -> None:
    for name, (program, message) in NOT_COMPILING.items():
        result = judge.run(PROBLEM, program, language="cpp17")
        assert result.outcome is Outcome.CORRECTNESS_FAILURE, name
        assert message in str(result.compile_error), name
    assert judge.run(PROBLEM, SUM, language="cpp17").reward() == 1


def test_standards_differ(judge: Judge) -> None:
    program = (
        READ + "auto add = []<class T>(T x, T y) requires true { return x + y; }; std::cout << add(a, b); }"
    )
    assert judge.run(PROBLEM, program, language="cpp20").reward() == 1
    assert judge.run(PROBLEM, program, language="cpp17").compile_error


def test_an_unknown_language_is_a_user_error(judge: Judge) -> None:
    with pytest.raises(UserError, match="language='rust': use python, cpp17, cpp20"):
        judge.run(PROBLEM, "", language="rust")


def test_programs_see_no_compiler(judge: Judge) -> None:
    program = 'import os\nprint(os.path.exists("/usr/bin/g++"), os.path.exists("/usr/include"))'
    assert "printed 'False'" in judge.run(PROBLEM, program).tests[0].detail


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Every program that is really compiled, with a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seen: list[str] = []
    original = languages.Compiler._build

    def build(self: languages.Compiler, source: str, *args: object) -> bytes:
        seen.append(source)
        return original(self, source, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(languages.Compiler, "_build", build)
    return seen


def test_a_program_is_compiled_once_and_kept(builds: list[str]) -> None:
    with Judge(workers=1) as judge:
        assert [judge.run(PROBLEM, SUM, language="cpp17").reward() for _ in range(2)] == [1, 1]
    with Judge(workers=1) as judge:
        assert judge.run(PROBLEM, SUM, language="cpp17").reward() == 1
        assert builds == [SUM]
        assert judge.run(PROBLEM, SUM, language="cpp20").reward() == 1
    assert builds == [SUM, SUM]


@pytest.mark.parametrize("damage", ["cut", "changed", "unreadable"])
def test_a_damaged_executable_is_made_again(builds: list[str], damage: str) -> None:
    with Judge(workers=1) as judge:
        judge.run(PROBLEM, SUM, language="cpp17")
    (path,) = languages.cache_folder(languages.CACHE).iterdir()
    whole = path.read_bytes()
    if damage == "unreadable":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(whole[:-1] if damage == "cut" else whole[:-1] + bytes([whole[-1] ^ 1]))
    with Judge(workers=1) as judge:
        assert judge.run(PROBLEM, SUM, language="cpp17").reward() == 1
    assert builds == [SUM, SUM]


def test_a_cache_that_cannot_be_written_costs_time_only(
    builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    with Judge(workers=1) as judge:
        assert judge.run(PROBLEM, SUM, language="cpp17").reward() == 1


def test_the_cache_is_bounded(builds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Judge(workers=1) as judge:
        judge.run(PROBLEM, "int main() {}", language="cpp17")
        (first,) = languages.cache_folder(languages.CACHE).iterdir()
        monkeypatch.setattr(languages, "CACHE_BYTES", 1.5 * first.stat().st_size)
        judge.run(PROBLEM, "int main() { return 0; }", language="cpp17")
    (left,) = languages.cache_folder(languages.CACHE).iterdir()
    assert left != first


def test_numpy_is_there_when_asked_for() -> None:
    program = "import numpy\nprint(numpy.array(input().split(), int).sum())"
    with Judge(workers=1, packages=("numpy",)) as judge:
        result = judge.run(PROBLEM, program)
        assert result.reward() == 1
        assert result.tests[0].memory_mb < 10  # loaded before the test, so not the test's
    with Judge(workers=1) as judge:
        assert "No module named 'numpy'" in judge.run(PROBLEM, program).tests[0].detail


def test_a_package_that_is_not_here_is_a_user_error() -> None:
    with pytest.raises(UserError, match="package 'nowhere' is not installed: pip install nowhere"):
        Judge(packages=("nowhere",))
