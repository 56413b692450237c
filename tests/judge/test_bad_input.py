"""What cannot be judged is refused in one line, nothing else is lost, and the judge serves on."""

import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from cef_env.errors import JudgeError, UserError
from cef_env.judge import Judge, JudgeResult, Verdict
from cef_env.sandbox.box import Box
from tests.conftest import no_warnings
from tests.judge.helpers import make_problem

PROBLEM = make_problem(("1", "1"), ("22", "22"))
ECHO = "print(input())"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def serving(judge: Judge) -> Iterator[Judge]:
    """The shared judge, which must still work after the test."""
    yield judge
    assert judge.run(PROBLEM, ECHO).reward() == 1
    assert judge.map([(PROBLEM, ECHO), (PROBLEM, "")])[1].reward() == 0


@pytest.mark.parametrize("program", [None, b"print(1)", 5, ["print(1)"], Path("x")])
def test_programs_that_are_no_text(serving: Judge, program: object) -> None:
    message = f"program must be source text \\(str\\), not {type(program).__name__}$"
    with pytest.raises(UserError, match=message):
        serving.run(PROBLEM, program)  # type: ignore[arg-type]
    for errors in ("raise", "return"):
        with pytest.raises(UserError, match=message):
            serving.map([(PROBLEM, ECHO), (PROBLEM, program)], errors=errors)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "program", ["a\0b", "print(1)#\ud800", "print('\udcff')", "\ufeffprint(", "if:", "(" * 10_000]
)
def test_programs_that_do_not_compile(serving: Judge, program: str) -> None:
    result = serving.run(PROBLEM, program)
    assert result.compile_error
    assert result.reward() == 0


def test_empty_program_and_empty_outputs(serving: Judge) -> None:
    assert serving.run(make_problem(("", "")), "").reward() == 1
    assert serving.run(make_problem(("", "")), "print()").reward() == 1
    test = serving.run(make_problem(("", "")), "print(0)").tests[0]
    assert (test.verdict, test.detail) == (Verdict.WRONG_ANSWER, "printed 1 tokens, expected 0")


def test_problems_that_cannot_be_judged(serving: Judge) -> None:
    with pytest.raises(UserError, match="problem must be a Problem, not str"):
        serving.run("p", ECHO)  # type: ignore[arg-type]
    with pytest.raises(
        UserError, match="problem 'p' is interactive, which the judge cannot run; leave it out"
    ):
        serving.run(make_problem(("1", "1"), interactive=True), ECHO)
    with pytest.raises(UserError, match="checker='floats': say how far"):
        serving.run(make_problem(("1", "1"), checker="floats"), ECHO)
    with pytest.raises(UserError, match="checker='testlib': use floats"):
        serving.run(make_problem(("1", "1"), checker="testlib"), ECHO)


def test_a_test_may_hold_any_bytes(serving: Judge) -> None:
    text = bytes(range(256)).replace(b"\n", b"").decode("utf-8", "surrogateescape")
    program = "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert serving.run(make_problem((text, text), ("é漢\x00", "é漢\x00")), program).reward() == 1


def test_extreme_limits(serving: Judge) -> None:
    assert (
        serving.run(make_problem(("1", "1"), time_limit_s=3600, memory_limit_mb=1 << 20), ECHO).reward() == 1
    )
    for limits in ({"time_limit_s": 1e-300}, {"memory_limit_mb": 1}):
        test = serving.run(make_problem(("1", "1"), **limits), "x = bytearray(50 << 20)\n" + ECHO).tests[0]
        assert test.verdict in (Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT), test


def test_one_judge_error_does_not_cost_the_other_results(
    serving: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Box.run

    def run(box: Box, stdin: bytes) -> object:
        if stdin == b"22":
            raise JudgeError("out of order")
        return original(box, stdin)

    monkeypatch.setattr(Box, "run", run)
    other = make_problem(("1", "1"))
    pairs = [(other, ECHO), (PROBLEM, ECHO), (other, "print(0)"), (PROBLEM, ECHO), (PROBLEM, "print(0)")]
    steps: list[tuple[int, int]] = []
    found = serving.map(pairs, errors="return", progress=lambda done, total: steps.append((done, total)))
    assert [r.reward() if isinstance(r, JudgeResult) else str(r) for r in found] == [
        1, "out of order", 0, "out of order", 0
    ]  # fmt: skip
    assert steps == [(n, 4) for n in (1, 2, 3, 4)]
    with pytest.raises(JudgeError, match="out of order"):
        serving.map(pairs)
    with pytest.raises(UserError, match="errors='ignore': use raise or return"):
        serving.map(pairs, errors="ignore")  # type: ignore[call-overload]
    monkeypatch.undo()


def test_a_cache_that_is_full_costs_no_verdict(tmp_path: Path) -> None:
    with Judge(workers=1, cache=tmp_path / "c") as judge:
        assert judge._cache is not None
        (pages,) = judge._cache._db.execute("PRAGMA page_count").fetchone()
        judge._cache._db.execute(f"PRAGMA max_page_count={pages}")
        big = "#" + "x" * 200
        with pytest.warns(UserWarning, match=r"judge cache .* is not used: database or disk is full"):
            results = judge.map([(PROBLEM, f"print('{number}{big}')") for number in range(200)])
        assert [result.reward() for result in results] == [0] * 200
        with no_warnings():  # said once
            assert judge.run(PROBLEM, ECHO).reward() == 1


def test_a_disk_that_is_full_costs_no_verdict(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import os, resource, sys, warnings
        from cef_env.judge import Judge
        from tests.judge.helpers import make_problem
        warnings.simplefilter("always")
        problem = make_problem(("1", "1"))
        with Judge(workers=1, cache=sys.argv[1]) as judge:
            print(judge.run(problem, "print(1)").reward())
            most = os.path.getsize(sys.argv[1] + "-wal")
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            print(judge.run(problem, "print(2)").reward())
            print(judge.run(problem, "print(int('1'))").reward())
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            print(judge.run(problem, "print(1)").reward(), judge.run(problem, "print(3)").reward())
    """)
    command = [sys.executable, "-c", code, str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "0", "1", "1", "0"]
    assert done.stderr.count("is not used") == 1


def test_a_locked_cache_costs_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cef_env.judge.cache.BUSY_TIMEOUT_S", 0.1)
    with Judge(workers=1, cache=tmp_path / "c") as judge, sqlite3.connect(tmp_path / "c") as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.warns(UserWarning, match="database is locked"):
            assert judge.run(PROBLEM, ECHO).reward() == 1
        other.rollback()


def test_caches_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "c", "/proc/self/none/c", "/dev/null/c"):
        with pytest.raises(
            UserError, match=r"cannot be used .*: name a file in a folder that can be written to"
        ) as caught:
            Judge(workers=1, cache=path)
        assert "\n" not in str(caught.value)


def test_a_cache_in_a_folder_without_permission() -> None:
    """In a child without root's privileges, which would overrule permissions."""
    from cef_env.judge.cache import ResultCache

    with tempfile.TemporaryDirectory() as name:  # unlike tmp_path, in a folder that everybody may enter
        folder = Path(name)
        ResultCache(folder / "c").close()
        (folder / "c").chmod(0o444)
        folder.chmod(0o555)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setresgid(65534, 65534, 65534)
                    os.setresuid(65534, 65534, 65534)
                for cache in ("c", "new"):
                    with pytest.raises(UserError, match="can be written to"):
                        ResultCache(folder / cache)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        folder.chmod(0o755)


def test_a_cache_damaged_in_use_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with Judge(workers=1, cache=path) as judge:
        judge.run(PROBLEM, ECHO)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with (
        Judge(workers=1, cache=path) as judge,
        pytest.raises(UserError, match="delete the file and run again"),
    ):
        judge.run(PROBLEM, ECHO)
