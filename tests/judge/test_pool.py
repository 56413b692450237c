"""Many programs, many threads, boxes that die: results stay right or there is a JudgeError."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cef_env.errors import JudgeError, UserError
from cef_env.judge import Judge, JudgeResult, Outcome
from cef_env.judge.judge import BOXES_PER_CORE
from cef_env.sandbox.box import Box
from cef_env.sandbox.cgroups import PREFIX, find_parent, sweep
from cef_env.sandbox.types import Execution, Limits
from tests.judge.helpers import make_problem

PROBLEM = make_problem(("1", "1"), ("22", "22"))
ECHO = "print(input())"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every program that really enters a box, in order."""
    seen: list[str] = []
    original = Box.load

    def load(box: Box, program: str, limits: Limits, **options: Any) -> str | None:
        seen.append(program)
        return original(box, program, limits, **options)

    monkeypatch.setattr(Box, "load", load)
    return seen


def test_map_keeps_order_and_judges_equal_pairs_once(judge: Judge, loads: list[str]) -> None:
    wrong = "print(0)"
    pairs = [(PROBLEM, ECHO), (PROBLEM, wrong), (PROBLEM, ECHO), (PROBLEM, wrong), (PROBLEM, ECHO)]
    steps: list[tuple[int, int]] = []
    results = judge.map(pairs, progress=lambda done, total: steps.append((done, total)))
    assert [result.reward() for result in results] == [1, 0, 1, 0, 1]
    assert sorted(loads) == sorted([ECHO, wrong])
    assert steps == [(1, 2), (2, 2)]
    assert judge.map([]) == []


def test_equal_programs_on_different_problems_are_judged_apart(judge: Judge) -> None:
    other = make_problem(("1", "2"), ("22", "33"))
    assert [r.reward() for r in judge.map([(PROBLEM, ECHO), (other, ECHO)])] == [1, 0]


def test_equal_calls_that_overlap_share_one_execution(judge: Judge, loads: list[str]) -> None:
    program = "import time\ntime.sleep(0.3)\nprint(input())"
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: judge.run(PROBLEM, program), range(4)))
    assert loads == [program]
    assert [result.reward() for result in results] == [1] * 4
    judge.run(PROBLEM, program)  # afterwards it is executed again: a judge without a cache remembers nothing
    assert loads == [program] * 2


def test_many_threads_share_a_judge(judge: Judge) -> None:
    def one(number: int) -> JudgeResult:
        program = ECHO if number % 2 else f"print({number})"
        return judge.run(PROBLEM, program)

    with ThreadPoolExecutor(8) as threads:
        rewards = [result.reward() for result in threads.map(one, range(24))]
    assert rewards == [number % 2 for number in range(24)]


def test_cache_survives_the_judge_and_keys_everything(tmp_path: Path, loads: list[str]) -> None:
    path = tmp_path / "sub" / "results.sqlite"
    with Judge(workers=1, cache=path) as judge:
        first = judge.run(PROBLEM, ECHO)
    with Judge(workers=1, cache=path) as judge:
        assert judge.run(PROBLEM, ECHO) == first
        assert len(loads) == 1
        judge.run(PROBLEM, ECHO, coverage=1)
        judge.run(PROBLEM, ECHO, exhaustive=True)
        judge.run(PROBLEM, ECHO + " ")
        judge.run(make_problem(("1", "1"), ("22", "22"), time_limit_s=0.6), ECHO)
        judge.run(make_problem(("1", "1"), ("22", "23")), ECHO)
        assert len(loads) == 6
    with Judge(workers=1, sandbox="rlimits", cache=path) as judge:
        assert judge.run(PROBLEM, ECHO).tier == "rlimits"
    assert loads.count(ECHO) == 6  # starting a tier for the first time loads a trial program too


def test_cached_compile_errors_and_failures_come_back_equal(tmp_path: Path) -> None:
    programs = ["print(", "1/0", "print(0)"]
    with Judge(workers=1, cache=tmp_path / "c") as judge:
        fresh = [judge.run(PROBLEM, program) for program in programs]
        assert [judge.run(PROBLEM, program) for program in programs] == fresh


def test_broken_cache_file_is_a_user_error(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(b"this is not a database, " * 100)
    with pytest.raises(UserError, match="delete the file") as caught:
        Judge(cache=path)
    assert "\n" not in str(caught.value)


def test_broken_cache_row_is_a_user_error(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "c"
    with Judge(workers=1, cache=path) as judge:
        judge.run(PROBLEM, ECHO)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE results SET result = '{'")
    with Judge(workers=1, cache=path) as judge, pytest.raises(UserError, match="delete the file"):
        judge.run(PROBLEM, ECHO)


def test_cache_is_shared_by_processes_that_get_killed(tmp_path: Path) -> None:
    path = tmp_path / "c"
    code = textwrap.dedent("""
        import sys
        from cef_env.judge.cache import ResultCache
        from cef_env.judge.types import JudgeResult, Outcome
        cache = ResultCache(sys.argv[1])
        number = 0
        while True:
            cache.put(f"{sys.argv[2]}-{number}", JudgeResult("p", Outcome.CORRECT, (), (1,)))
            number += 1
            print(number, flush=True)
    """)
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name], stdout=subprocess.PIPE)
        for name in "ab"
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"1\n"
    time.sleep(0.3)  # both write at once
    for writer in writers:
        writer.kill()
    from cef_env.judge.cache import ResultCache

    cache = ResultCache(path)
    for name, writer in zip("ab", writers):
        assert writer.stdout is not None
        written = len(writer.stdout.read().splitlines())
        assert all(cache.get(f"{name}-{number}") is not None for number in range(1 + written))
        writer.wait()
        writer.stdout.close()
    cache.close()


def zygote_of(box: Box) -> int:
    pid = box.zygote.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0])


@pytest.mark.parametrize("victim", ["bwrap", "zygote"])
def test_a_box_killed_from_outside_costs_a_retry_not_a_verdict(victim: str) -> None:
    program = "import time\ntime.sleep(0.3)\nprint(input())"
    with Judge(workers=1) as judge:
        judge.run(PROBLEM, ECHO)
        box = judge._pool._idle[0]

        def kill() -> None:
            time.sleep(0.15)
            os.kill(box.zygote.process.pid if victim == "bwrap" else zygote_of(box), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        result = judge.run(PROBLEM, program)
        killer.join()
        assert result.outcome is Outcome.CORRECT
        assert judge._pool._idle[0] is not box


@pytest.mark.parametrize("victim", ["bwrap", "zygote"])
def test_boxes_that_died_while_idle_are_replaced(victim: str) -> None:
    with Judge(workers=3) as judge:
        judge.map([(PROBLEM, f"import time\ntime.sleep(0.2)\nprint(input())#{n}") for n in range(3)])
        assert len(judge._pool._idle) == 3
        for box in judge._pool._idle:
            os.kill(box.zygote.process.pid if victim == "bwrap" else zygote_of(box), signal.SIGKILL)
        assert [judge.run(PROBLEM, ECHO).reward() for _ in range(4)] == [1] * 4


def test_boxes_that_keep_dying_are_a_judge_error(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Box.run

    def run(box: Box, stdin: bytes) -> Execution:
        os.kill(zygote_of(box), signal.SIGKILL)
        return original(box, stdin)

    with Judge(workers=1) as judge:
        monkeypatch.setattr(Box, "run", run)
        with pytest.raises(JudgeError, match="box"):
            judge.run(PROBLEM, ECHO)
        monkeypatch.setattr(Box, "run", original)
        assert judge.run(PROBLEM, ECHO).reward() == 1


def test_a_broken_checker_is_a_judge_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from cef_env.judge import checkers

    monkeypatch.setitem(checkers.CHECKERS, "broken", (lambda options: lambda printed, expected: 1 / 0, ()))
    with Judge(workers=1) as judge, pytest.raises(JudgeError, match="checker 'broken' failed on 'p'"):
        judge.run(make_problem(("1", "1"), checker="broken"), ECHO)


def test_closed_judge_and_bad_arguments_are_user_errors() -> None:
    judge = Judge(workers=1)
    judge.run(PROBLEM, ECHO)
    judge.close()
    judge.close()
    with pytest.raises(UserError, match="closed"):
        judge.run(PROBLEM, ECHO)
    with pytest.raises(UserError, match="workers=0"):
        Judge(workers=0)
    with pytest.raises(UserError, match="sandbox='none'"):
        Judge(sandbox="none")
    assert Judge().workers == BOXES_PER_CORE * len(os.sched_getaffinity(0))


def test_a_forked_child_must_make_its_own_judge(judge: Judge) -> None:
    judge.run(PROBLEM, ECHO)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            judge.run(PROBLEM, ECHO)
        except UserError:
            with Judge(workers=1) as own:
                status = 0 if own.run(PROBLEM, ECHO).reward() == 1 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert judge.run(PROBLEM, ECHO).reward() == 1


def test_boxes_outlive_the_thread_that_first_used_them() -> None:
    with Judge(workers=1) as judge:
        thread = threading.Thread(target=judge.run, args=(PROBLEM, ECHO))
        thread.start()
        thread.join()
        box = judge._pool._idle[0]
        time.sleep(0.1)
        assert judge.run(PROBLEM, ECHO).reward() == 1
        assert judge._pool._idle[0] is box


def test_killing_the_judge_ends_its_boxes_and_the_next_judge_removes_its_cgroups() -> None:
    code = textwrap.dedent("""
        from cef_env.judge import Judge
        from tests.judge.helpers import make_problem
        judge = Judge(workers=1)
        judge.run(make_problem(("1", "1")), "print(1)")
        box = judge._pool._idle[0]
        print(box.zygote.process.pid, flush=True)
        judge.run(make_problem(("1", "1"), time_limit_s=30), "while True: pass")
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert process.stdout is not None
    bwrap = int(process.stdout.readline())
    time.sleep(0.3)  # the busy loop runs now
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{bwrap}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{bwrap}").exists()
    parent = find_parent()
    if parent is None:
        return
    pattern = f"{PREFIX}.*.{process.pid}.*"
    # Another judge on this machine may have swept them already.
    while any(list(folder.glob(pattern)) for folder in parent.folders) and time.monotonic() < deadline:
        sweep(parent)
    assert not any(list(folder.glob(pattern)) for folder in parent.folders)


def test_load_does_not_turn_into_time_limits(judge: Judge) -> None:
    """Eight programs at once on however few cores; each may use 1.5 times its CPU time alone.

    Other work on the machine makes even CPU time longer, never shorter: one clean attempt of three is proof.
    """
    program = "total = 0\nfor i in range(3_000_000): total += i * i % 7\nprint(input())"
    generous = make_problem(("1", "1"), time_limit_s=10)
    results: list[JudgeResult] = []
    with Judge(workers=8) as crowd:
        for _ in range(3):
            alone = max(judge.run(generous, program).tests[0].cpu_s for _ in range(3))
            problem = make_problem(("1", "1"), time_limit_s=1.5 * alone)
            results = crowd.map([(problem, f"{program}#{number}") for number in range(8)])
            if all(result.outcome is Outcome.CORRECT for result in results):
                return
    raise AssertionError([result.tests for result in results])


def test_importing_the_judge_is_light() -> None:
    code = "import sys, cef_env.judge\nprint([m for m in ('torch', 'transformers', 'docker', 'matplotlib') if m in sys.modules])"
    root = Path(__file__).parents[2]
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True
    )
    assert output.stdout.strip() == "[]"
