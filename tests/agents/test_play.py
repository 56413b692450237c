"""`cef play` with a person at a real terminal, and from a pipe."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from cef_env.commands.person import fence, unfinished

ROOT = Path(__file__).parents[2]
SOLUTION = "n = int(input())\nprint(2 * n)\n"
Start = Callable[..., pexpect.spawn]


@pytest.fixture
def source(tmp_path: Path) -> str:
    """One problem: print the double; its first test is a sample."""
    wrong = {"kind": "bug", "program": "print(1)", "expected": ["correctness_failure"]}
    tests = [{"input": "1\n", "output": "2\n", "sample": True}, {"input": "12345\n", "output": "24690\n"}]
    problem = {"id": "double", "title": "Double", "statement": "Print the double.", "tests": tests}
    (tmp_path / "p.jsonl").write_text(json.dumps(problem | {"submissions": [wrong]}) + "\n")
    (tmp_path / "solution.py").write_text(SOLUTION)
    return f"jsonl:{tmp_path / 'p.jsonl'}"


def command(env_id: str, source: str, *more: str) -> list[str]:
    return ["-m", "cef_env.cli", "play", env_id, "--problems", source, *more]


def environ(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), "TERM": "dumb"}


@pytest.fixture
def start(tmp_path: Path, source: str) -> Iterator[Start]:
    """Starts `cef play` in a terminal."""
    started = []

    def spawn(env_id: str, *more: str) -> pexpect.spawn:
        child = pexpect.spawn(
            sys.executable,
            command(env_id, source, *more),
            cwd=tmp_path,
            env=environ(tmp_path),
            encoding="utf-8",
            timeout=60,
            dimensions=(50, 200),
            # What a script starts in the background ignores interrupts, and so would this.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        started.append(child)
        return child

    yield spawn
    for child in started:
        child.close(force=True)


def piped(folder: Path, env_id: str, source: str, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, *command(env_id, source, *more)]
    return subprocess.run(
        arguments, input=text, capture_output=True, text=True, cwd=folder, env=environ(folder), timeout=120
    )


def ended(child: pexpect.spawn) -> tuple[str, int]:
    child.expect(pexpect.EOF)
    child.close()
    return child.before, child.exitstatus


def test_a_person_works_in_the_terminal_of_the_agentic_setting(start: Start, tmp_path: Path) -> None:
    child = start("cef/Agentic-v0", "--coverage", "5")
    child.expect_exact("=== cef/Agentic-v0: problem double")
    child.expect_exact("Print the double.")
    child.expect_exact("submit PATH")
    child.expect_exact("$ ")
    child.sendline("cat > a.py <<'X'")
    for line in ("print(2 *", "int(input()))", "X"):
        child.expect_exact("> ")
        child.sendline(line)
    child.expect_exact("[exit status 0]")
    child.expect_exact("$ ")
    child.sendline("python3 a.py < samples/1.in | diff - samples/1.out && echo 'all' \"right\"")
    child.expect_exact("│ all right")
    child.expect_exact("$ ")
    child.sendline("submit missing.py")
    child.expect_exact("there is no such file")
    child.sendline("put sol\t")  # of the person's own files
    child.expect_exact("solution.py")
    child.expect_exact("[exit status 0]")
    child.sendline("sub\ta.\t")
    out, status = ended(child)
    assert status == 0
    assert "=== correct, reward 1" in out
    assert "2 passed of 2 that were run" in out
    assert "10^1: 1  10^2: 1 " not in out  # levels of the problem only
    assert "(coverage reached: 1)" in out
    assert "messages     5 in" in out
    (kept,) = (tmp_path / "cache/cef-env/play").glob("*.jsonl")
    assert str(kept) in out
    assert json.loads(kept.read_text())["outcome"] == "correct"
    assert "put solution.py" in (tmp_path / "cache/cef-env/play/history").read_text()


def test_a_person_runs_code_and_answers(start: Start) -> None:
    child = start("cef/ToolUse-v0")
    child.expect_exact("python> ")
    child.sendline("for i in range(3):")
    child.expect_exact("... ")
    child.sendline("  print(i * 11)")
    child.expect_exact("... ")
    child.sendline(".")
    child.expect_exact("│ 0")
    child.expect_exact("│ 22")
    child.expect_exact("python> ")
    child.sendline("answer nowhere.py")
    child.expect_exact("nowhere.py: No such file")
    child.sendline("answer sol\t")
    out, status = ended(child)
    assert status == 0
    assert "=== correct" in out


def test_a_program_is_typed(start: Start) -> None:
    child = start("cef/Reasoning-v0")
    child.expect_exact("program> ")
    child.sendline("print(1)")
    child.expect_exact("... ")
    child.sendeof()
    out, status = ended(child)
    assert status == 0
    assert "=== correctness_failure, reward 0" in out
    assert "failed       wrong_answer on an input of 2 characters" in out


def test_the_program_of_a_file_is_an_answer(start: Start) -> None:
    child = start("cef/Repair-v0")
    child.expect_exact("program> ")
    child.sendline("file sol\t")
    assert "=== correct" in ended(child)[0]


@pytest.mark.parametrize(("key", "expected"), [("\x04", 0), ("\x03", 130)])
def test_leaving_is_clean(start: Start, key: str, expected: int) -> None:
    child = start("cef/Agentic-v0")
    child.expect_exact("$ ")
    child.sendline("true")
    child.expect_exact("Messages left: 19")
    child.expect_exact("$ ")
    child.send(key)
    out, status = ended(child)
    assert "Left without an answer" in out
    assert "Traceback" not in out
    assert status == expected


def test_a_command_that_runs_can_be_interrupted(start: Start) -> None:
    child = start("cef/Agentic-v0")
    child.expect_exact("$ ")
    child.sendline("sleep 30")
    child.expect(pexpect.TIMEOUT, timeout=1)
    child.sendintr()
    child.expect_exact("Left without an answer", timeout=8)
    assert ended(child)[1] == 130


@pytest.mark.parametrize(
    ("env_id", "text", "expected"),
    [
        ("cef/Reasoning-v0", f"I say:\n```python\n{SOLUTION}```\n", "=== correct"),
        ("cef/ToolUse-v0", f"print(6*7)\n.\nanswer\n{SOLUTION}.\n", "│ 42"),
        ("cef/Agentic-v0", "put solution.py\necho '1\n2'\nsubmit solution.py\n", "│ 1\n│ 2\n"),
        ("cef/Reasoning-v0", "", "Left without an answer"),
    ],
)
def test_a_pipe_plays_without_prompts(
    tmp_path: Path, source: str, env_id: str, text: str, expected: str
) -> None:
    done = piped(tmp_path, env_id, source, text)
    assert done.returncode == 0
    assert expected in done.stdout
    assert "> " not in done.stdout.replace("> |", "")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("env_id", "more", "named"),
    [
        ("cef/Agent-v0", (), "use cef/Agentic-v0, cef/Reasoning-v0, cef/Repair-v0, cef/ToolUse-v0"),
        ("cef/Agentic-v0", ("--problem", "x"), "no problem 'x'"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, source: str, env_id: str, more: tuple[str, ...], named: str
) -> None:
    done = piped(tmp_path, env_id, source, "", *more)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("ls -l", False),
        ("cat > a <<X", True),
        ("cat > a <<X\nit's text\nX", False),
        ("cat > a <<'X' && cat > b <<-Y\n1\nX\n2\n\tY", False),
        ("cat > a <<'X' && cat > b <<-Y\n1\nX\n2", True),
        ("echo 'one", True),
        ("echo 'one\ntwo'", False),
        ("echo a \\", True),
        ("echo a \\\\", False),
        ("echo it # isn't open", False),
        ("cat <<< word", False),
    ],
)
def test_a_command_goes_on_where_a_shell_would_ask(command: str, more: bool) -> None:
    assert unfinished(command) is more


def test_a_fenced_answer_stays_as_it_is() -> None:
    assert fence("```\nx\n```") == "```\nx\n```"
    assert fence("x") == "```python\nx\n```"
