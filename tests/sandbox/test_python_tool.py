"""What the Python tool does with code of every kind, with both kinds of state, on every tier."""

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator
from typing import Literal

import pytest

from cef_env.errors import UserError
from cef_env.sandbox import BoxError, Limits, Tier, resolve
from cef_env.sandbox.inside import protocol
from cef_env.sandbox.python_tool import PythonTool, ToolResult
from tests.judge.helpers import NO_MOUNTS, TIERS, tier_or_skip

LIMITS = Limits(cpu_s=0.5, memory_bytes=64 << 20, output_bytes=1 << 20)


@pytest.fixture(
    scope="module", params=[(tier, state) for tier in TIERS for state in ("call", "episode")], ids="-".join
)
def tool(request: pytest.FixtureRequest) -> Iterator[PythonTool]:
    """Of both kinds, for code whose result is the same with each."""
    tier, state = request.param
    with PythonTool(tier_or_skip(tier), state, LIMITS, output_characters=1000) as tool:
        yield tool


@pytest.fixture(params=TIERS)
def episode(request: pytest.FixtureRequest) -> Iterator[PythonTool]:
    with PythonTool(tier_or_skip(request.param), "episode", LIMITS) as tool:
        yield tool


def skip_unless(tool: PythonTool, *, files: bool = False, forks: bool = False) -> None:
    """Skips what the tier of a tool says that it does not offer."""
    if (files and tool.plan.tier in NO_MOUNTS) or (forks and tool.plan.tier is Tier.LANDLOCK_NO_FORK):
        pytest.skip("not in this tier")


def code_name(result: ToolResult) -> str:
    """`output` with the name of the code as it is in a fresh interpreter."""
    return re.sub(r"<call \d+>", "main.py", result.output)


def test_output_is_what_was_printed_in_the_order_written(tool: PythonTool) -> None:
    code = "import os, sys\nprint('a', end=' ')\nsys.stderr.write('b\\n')\nprint('c')\nos.system('') if 0 else os.write(2, b'd\\n')\nprint('e')\n1 + 1"
    assert tool.run(code) == ToolResult("a b\nc\nd\ne\n", False, "", 0)
    skip_unless(tool, forks=True)
    assert (
        tool.run(
            "import subprocess, sys\nprint(1); subprocess.run([sys.executable, '-c', 'print(2)']); print(3)"
        ).output
        == "1\n2\n3\n"
    )


def test_a_traceback_is_pythons_own(tool: PythonTool) -> None:
    result = tool.run(
        "def f(x):\n    return 1 / x\n\ntry:\n    f(0)\nexcept ZeroDivisionError as error:\n    raise ValueError('é') from error"
    )
    assert code_name(result) == (
        'Traceback (most recent call last):\n  File "main.py", line 5, in <module>\n    f(0)\n'
        '  File "main.py", line 2, in f\n    return 1 / x\n           ~~^~~\nZeroDivisionError: division by zero\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n  File \"main.py\", line 7, in <module>\n    raise ValueError('é') from error\n"
        "ValueError: é\n"
    )
    assert (result.failed, result.stopped) == (True, "")


def test_code_that_does_not_compile(tool: PythonTool) -> None:
    result = tool.run("print(1)\nprint(")
    assert (
        code_name(result)
        == "  File \"main.py\", line 2\n    print(\n         ^\nSyntaxError: '(' was never closed\n"
    )
    assert result.failed
    assert "null bytes" in tool.run("a\0b").output
    assert "not valid Unicode" in tool.run("'\udc80'").output


@pytest.mark.parametrize(
    ("code", "output", "failed"),
    [
        ("exit()", "", False),
        ("raise SystemExit(0)", "", False),
        ("raise SystemExit(3)", "", True),
        ("import sys; sys.exit('bye')", "bye\n", True),
        ("", "", False),
        ("# comment", "", False),
        ("print(__name__)", "__main__\n", False),
        ("class A: pass\nimport pickle; print(type(pickle.loads(pickle.dumps(A()))).__name__)", "A\n", False),
        ("import sys; print(len(sys.argv), open('/dev/null').read())", "1 \n", False),
        ("import os\nif os.fork() == 0: print('child')\nelse: os.wait(); print('parent')", "child\nparent\n", False),
        ("import inspect\ndef g(): return 7\nprint(inspect.getsource(g), end='')", "def g(): return 7\n", False),
        ("print(hash('a') == hash('a'), {*'abc'} == {*'cab'})", "True True\n", False),
        ("import warnings; print('\\x1b[31mred\\x1b[0m\\x07')", "red^G\n", False),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\n')", "\\xff\n", False),
        ("print('\\udcff')", "\\xff\n", False),
    ],
)  # fmt: skip
def test_what_agents_write(tool: PythonTool, code: str, output: str, failed: bool) -> None:
    skip_unless(tool, forks="fork" in code)
    result = tool.run(code)
    assert (result.output, result.failed, result.stopped) == (output, failed, "")


def test_stdin_is_empty(tool: PythonTool) -> None:
    assert "EOFError" in tool.run("input()").output
    assert tool.run("import sys, os; print(repr(sys.stdin.read()), os.read(0, 9))").output == "'' b''\n"


def test_the_middle_is_cut_and_counted(tool: PythonTool) -> None:
    result = tool.run("print('a' * 700 + 'b' * 700, end='')")
    assert result == ToolResult(
        "a" * 500 + "\n[... 400 characters left out ...]\n" + "b" * 500, False, "", 400
    )


@pytest.mark.parametrize(
    ("code", "stopped", "why"),
    [
        ("while True: pass", "time", "0.5 s of CPU time"),
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", "time", "0.5 s"),
        ("while True: print('x' * 999)", "output", "1024 KiB of output"),
    ],
)
def test_limits(tool: PythonTool, code: str, stopped: str, why: str) -> None:
    result = tool.run(code)
    assert (result.stopped, result.failed) == (stopped, True)
    note = result.output.splitlines()[-1]
    assert why in note
    assert ("its variables are lost" in note) == (tool.state == "episode")
    assert tool.run("print(1)").output == "1\n"


def test_memory(tool: PythonTool) -> None:
    result = tool.run("a = []\nwhile True: a.append(bytearray(1 << 20))")
    assert result.failed
    if tool.plan.cgroups or tool.state == "call":
        assert (result.stopped, "64 MiB of memory" in result.output) == ("memory", True)
    assert tool.run("print(1)").output == "1\n"


class Impatient(Limits):
    """Half a second of wall time."""

    wall_s = 0.5


SURVIVED = {
    "itself": "try: bytearray(1 << 31)\nexcept MemoryError: print('survived')",
    "a child": """
import os
child = os.fork()
if not child:
    pages = []
    while True: pages.append(b'x' * (1 << 20))
os.waitpid(child, 0)
print('survived')
""",
}


@pytest.mark.parametrize("who", SURVIVED)
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
def test_a_death_is_not_laid_to_memory_that_was_survived(episode: PythonTool, who: str, name: str) -> None:
    skip_unless(episode, forks=who == "a child")
    result = episode.run(SURVIVED[who])
    if "survived" not in result.output:
        pytest.skip("not survived in this tier")
    result = episode.run(f"import os, signal; os.kill(os.getpid(), signal.{name})")
    assert result.stopped == ""
    assert f"[the interpreter was ended by {name}" in result.output


@pytest.mark.parametrize("state", ["call", "episode"])
def test_idle_code_ends_with_the_wall_time(state: Literal["call", "episode"]) -> None:
    with PythonTool(resolve(), state, Impatient(cpu_s=0.5, memory_bytes=64 << 20)) as tool:
        assert tool.run("import time; time.sleep(60)").stopped == "idle"
        assert tool.run("print(1)").output == "1\n"


def test_a_killed_interpreter(tool: PythonTool) -> None:
    result = tool.run("import os; print('a', flush=True); os.kill(os.getpid(), 11)")
    assert result.output.startswith("a\n[the interpreter was ended by SIGSEGV")
    assert result.failed
    assert not result.stopped


def test_every_call_is_fresh() -> None:
    with PythonTool(resolve()) as tool:
        tool.run("import builtins, os; x = builtins.y = 1; open('file', 'w').write('x')")
        result = tool.run("import os; print('x' in globals(), 'y' in dir(__builtins__), os.listdir())")
        assert result.output == "False False ['main.py']\n"


def test_variables_survive_until_reset(episode: PythonTool) -> None:
    skip_unless(episode, files=True)
    episode.run("import math\nx = 5\ndef f(): return x\nopen('file', 'w').write('kept')")
    assert episode.run("print(f(), math.pi > 3, open('file').read())").output == "5 True kept\n"
    assert episode.run("x = 6; 1 / 0").failed
    assert episode.run("print(f())").output == "6\n"
    episode.reset()
    assert "NameError" in episode.run("print(f())").output
    assert episode.run("import os; print(os.listdir())").output == "[]\n"


def test_a_stopped_call_loses_the_variables_and_says_so(episode: PythonTool) -> None:
    episode.run("x = 5")
    assert "its variables are lost" in episode.run("while True: pass").output
    assert "NameError" in episode.run("print(x)").output


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout = sys.stderr = None",
        "import sys; sys.stdout.close()",
        "import os; os.close(0); os.close(1); os.close(2)",
        "import os; os.dup2(os.open('/dev/null', os.O_RDWR), 1)",
        "import sys; sys.stdin.close(); sys.modules.clear()",
        "import builtins; del builtins.print; builtins.print = lambda *a: None; import builtins; del builtins.print",
        "import signal; signal.signal(signal.SIGPROF, signal.SIG_IGN)",
        "import os; os.chdir('/')",
        "import sys; sys.setrecursionlimit(50)",
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(100)).start()",
    ],
)
def test_a_call_does_not_silence_the_next(episode: PythonTool, code: str) -> None:
    episode.run(code)
    assert episode.run("import os; os.write(1, b'seen\\n')").output == "seen\n"


def test_an_interpreter_that_closes_its_channel_is_replaced(episode: PythonTool) -> None:
    result = episode.run("import os; print('a'); os.closerange(3, 256)")
    assert result == ToolResult("a\n[the interpreter ended; its variables are lost]\n", True, "", 0)
    assert episode.run("print(1)").output == "1\n"


def test_an_answer_without_the_key_is_none(episode: PythonTool) -> None:
    code = "import os\nfor fd in range(3, 256):\n    try: os.write(fd, bytes(17) * 50)\n    except OSError: pass\nprint('end')"
    result = episode.run(code)
    assert result.output.endswith("end\n")
    assert not result.failed
    assert episode.run("print('next')").output == "next\n"


def test_a_fork_that_reaches_the_end_does_not_answer(episode: PythonTool) -> None:
    skip_unless(episode, forks=True)
    episode.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)")
    assert episode.run("print(pid > 0)").output == "True\n"


def test_isolation_is_that_of_a_box(tool: PythonTool) -> None:
    skip_unless(tool, files=True)
    code = "import os, socket\nprint(os.getcwd(), os.getuid() == 0)\ntry: socket.socket()\nexcept OSError: print('no network')"
    assert tool.run(code).output == f"{protocol.WORK} False\nno network\n"
    assert tool.run("open('/x', 'w')").failed
    assert "No module named 'numpy'" in tool.run("import numpy").output


def test_nothing_starts_before_the_first_call() -> None:
    tool = PythonTool(resolve())
    assert tool._box is None
    tool.close()
    tool.close()
    with pytest.raises(UserError, match="call or episode"):
        PythonTool(resolve(), "session")  # type: ignore[arg-type]


def test_a_dead_box_is_an_instrument_fault_or_replaced(tool: PythonTool) -> None:
    tool.run("x = 1")
    assert tool._box is not None
    dead = tool._box.zygote
    process = getattr(dead, "process", None)
    if process is None:
        tool._box.zygote._container.kill()  # type: ignore[attr-defined]
    else:
        process.kill()
        process.wait()
    # Its last process may still answer for a moment; then a call is a fault, and one after that has a new box.
    for _ in range(20):
        with contextlib.suppress(BoxError):
            assert tool.run("print(1)").output == "1\n"
            if tool._box is not None and tool._box.zygote is not dead:
                break
    assert tool.run("print(2)").output == "2\n"


@pytest.mark.parametrize("state", ["call", "episode"])
def test_64_calls_of_half_a_second_overlap(state: Literal["call", "episode"]) -> None:
    tools = [PythonTool(resolve(), state) for _ in range(64)]
    blocked = PythonTool(resolve(), state)
    outputs: list[str] = []

    def in_threads(code: str) -> float:
        threads = [threading.Thread(target=lambda t=t: outputs.append(t.run(code).output)) for t in tools]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - start

    try:
        in_threads("pass")
        blocked.run("pass")
        outputs.clear()
        blocker = threading.Thread(target=blocked.run, args=("import time; time.sleep(3)",))
        blocker.start()
        # The target is 2 s on 2 free cores; tests run beside others.
        assert in_threads("import time; time.sleep(0.5); print('x')") < 4.0
        assert outputs == ["x\n"] * 64
        blocker.join()
    finally:
        for tool in (*tools, blocked):
            tool.close()


def test_nothing_is_left_after_close(episode: PythonTool) -> None:
    def left() -> int:
        return len(os.listdir("/proc/self/fd"))

    episode.run("x = 1")
    before = left()
    for state in ("call", "episode"):
        with PythonTool(episode.plan, state, LIMITS) as other:  # type: ignore[arg-type]
            other.run("import os\nif os.fork() == 0:\n    os.setsid()\n    import time; time.sleep(60)")
    assert left() == before
