"""The `cef` command: mistakes are one line with status 2 and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.cli import main
from cef_env.commands.merging import _bytes, parse_alphas
from cef_env.errors import UserError
from cef_env.files import write_atomic

ROOT = Path(__file__).parents[1]


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


class Cef:
    """Runs `cef` with arguments in this process, in a folder of its own."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cwd: Path
    ) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch
        monkeypatch.chdir(cwd)

    def __call__(self, *arguments: str) -> Done:
        self._monkeypatch.setattr(sys, "argv", ["cef", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out = self._capsys.readouterr()
        return Done(int(end.value.code or 0), out.out, out.err)


@pytest.fixture
def cef(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cef:
    return Cef(capsys, monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["reproduce", "--preset", "huge", "--out", "run"], "config 'huge'"),
        (["reproduce", "--preset", "missing.yaml", "--out", "run"], "missing.yaml"),
        (["problems", "list", "nowhere:x"], "unknown scheme"),
        (["problems", "list", "mine.jsonl"], "use jsonl:mine.jsonl, or one of builtin"),
        (["problems", "list", "builtin:medium"], "unknown split"),
        (["problems", "show", "builtin:easy", "nothing"], "no problem 'nothing'"),
        (["judge", "builtin:easy#nothing", "missing.py"], "'missing.py' cannot be read: No such file"),
        (["judge", "nothing", "missing.py"], "SOURCE#ID"),
        (["judge", "builtin:easy#nothing", "."], "Is a directory"),
        (["judge", "builtin:easy#nothing", sys.executable], "cannot be read as text"),
        (["judge", "builtin:easy#nothing", __file__], "no problem 'nothing'"),
        (["judge", "builtin:easy#nothing", __file__, "--language", "rust"], "language='rust'"),
        (["judge", "builtin:easy#nothing", str(ROOT / "LICENSE")], "--language"),
        (["play", "cef/Nowhere-v0"], "cef/Nowhere-v0"),
        (["rollout", "--agent", "scripted:magic", "--out", "run"], "scripted:magic"),
        (["rollout", "--agent", "scripted:efficient", "--coverage", "0", "--out", "run"], "coverage="),
        (["rollout", "--agent", "hf:nowhere", "--out", "run"], "config.json"),
        (["merge", "low", "high", "--alpha", "0:1", "--out", "run"], "alpha range"),
        (["merge", "low", "high", "--alpha", "0.5", "--out", "run"], "low"),
        (["reproduce", "--preset", "smoke", "--out", "/dev/null"], "/dev/null"),
        (["reproduce", "--preset", "smoke", "--out", "/proc/run"], "/proc/run"),
        (["report", "nowhere"], "is no run"),
        (["train", "rl", "nowhere", "--coverage", "2", "--preset", "smoke", "--out", "run"], "config.json"),
    ],
)
def test_a_mistake_is_one_line_with_status_2(
    cef: Cef, tmp_path: Path, arguments: list[str], named: str
) -> None:
    done = cef(*arguments)
    assert done.returncode == 2, done.stderr
    assert named in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_without_a_sandbox_nothing_runs(cef: Cef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program.py").write_text("print(1)")
    listed = cef("problems", "list", "builtin:easy?count=1").stdout.strip()
    monkeypatch.setenv("CEF_SANDBOX", "nowhere")
    done = cef("judge", f"builtin:easy?count=1#{listed}", "program.py")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "nowhere" in done.stderr


def test_the_installed_command_runs_and_debug_shows_the_traceback() -> None:
    command = [sys.executable, "-m", "cef_env.cli", "--debug", "problems", "list", "nowhere:x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr


def test_judge_shows_a_verdict_for_each_test(cef: Cef, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print(1 / 0)")
    listed = cef("problems", "list", "builtin:easy?count=1").stdout.strip()
    done = cef("judge", f"builtin:easy?count=1#{listed}", "program.py")
    assert done.returncode == 0, done.stderr
    assert "runtime_error" in done.stdout
    assert "correctness_failure" in done.stdout


@pytest.fixture
def problem(cef: Cef) -> str:
    """SOURCE#ID of some problem."""
    source = "builtin:easy?count=1"
    return f"{source}#{cef('problems', 'list', source).stdout.strip()}"


def test_judge_speaks_the_language_of_the_suffix(cef: Cef, problem: str, tmp_path: Path) -> None:
    for name in ("a.cpp", "a.cc", "a.cxx"):
        (tmp_path / name).write_text("int main() { return 0 }")
        done = cef("judge", problem, name)
        assert done.returncode == 0, done.stderr
        assert "does not compile: main.cpp" in done.stdout
    (tmp_path / "a.txt").write_text("print(1 2)")
    assert "does not compile: SyntaxError" in cef("judge", problem, "a.txt", "--language", "python").stdout


def test_judge_shows_where_a_wrong_answer_parts(cef: Cef, problem: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('\\x1b[2J')")
    done = cef("judge", problem, "a.py", "--sandbox", "rlimits")
    assert "test 1: token 1 differs" in done.stdout
    assert r"[\x1b[2J]" in done.stdout
    assert "\x1b" not in done.stdout
    assert "sandbox rlimits" in done.stdout


def test_judge_as_json(cef: Cef, problem: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('no')")
    done = cef("judge", problem, "a.py", "--json", "--speed-factor", "2")
    data = json.loads(done.stdout)
    assert data["tests"][0]["verdict"] == "wrong_answer"
    assert data["rewards"]["inf"] == 0
    assert data["speed_factor"] == 2.0
    assert data["first_difference"]["printed"]["here"] == "no"


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_a_speed_factor_that_makes_no_sense(cef: Cef, problem: str, tmp_path: Path, value: str) -> None:
    (tmp_path / "a.py").write_text("print('no')")
    done = cef("judge", problem, "a.py", f"--speed-factor={value}")
    assert done.returncode == 2
    assert "speed_factor=" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "alphas"),
    [
        ("0.5", [0.5]),
        ("-0.5:1.5:0.25", [-0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5]),
        ("0:1:0.3,2", [0, 0.3, 0.6, 0.9, 2]),
        ("1:1:1", [1]),
    ],
)
def test_alphas_are_numbers_and_ranges(text: str, alphas: list[float]) -> None:
    assert parse_alphas(text) == pytest.approx(alphas)


@given(st.integers(-8, 8), st.integers(0, 20), st.sampled_from([0.05, 0.1, 0.25, 0.5]))
def test_a_range_ends_at_its_stop_when_the_step_divides_it(start: int, count: int, step: float) -> None:
    assert parse_alphas(f"{start}:{start + count * step:.10f}:{step}") == pytest.approx(
        [start + i * step for i in range(count + 1)]
    )


@pytest.mark.parametrize("text", ["", "x", "0:1", "1:0:0.5", "0:1:0", "0:1:-1", "0:1:0.5:2"])
def test_other_alphas_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="alpha"):
        parse_alphas(text)


def test_a_file_name_that_is_no_text_is_printed_with_escapes(tmp_path):
    env = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}  # as in most locales
    source = "builtin:easy?count=1"
    out = bytes(tmp_path) + b"/\xff.jsonl"
    command = [sys.executable, "-m", "cef_env.cli", "problems", "export", source, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    assert "\\udcff.jsonl" in (done.stdout + done.stderr).replace("\n", "")


def test_a_file_that_cannot_be_replaced_leaves_no_temporary_one(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomic(tmp_path / "folder", "text")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_size_of_files_beyond_any_disk_means_one_file():
    assert _bytes(1e300) == _bytes(1e9)


def test_an_interrupted_command_says_how_to_continue(tmp_path):
    (tmp_path / "slow_agent.py").write_text(
        "import pathlib, time\n"
        "class Slow:\n"
        "    def act(self, messages):\n"
        f"        pathlib.Path({str(tmp_path / 'asked')!r}).touch()\n"
        "        time.sleep(60)\n"
        "        return ''\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    arguments = [
        "--agent",
        "slow_agent:Slow",
        "--problems",
        "builtin:easy?count=1",
        "--out",
        tmp_path / "out",
    ]
    command = [sys.executable, "-m", "cef_env.cli", "rollout", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True,
        # A shell's job in the background ignores interrupts, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        while not (tmp_path / "asked").exists():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=100)
    assert process.returncode == 130
    assert printed.endswith("interrupted; run the same command again to continue\n")
