"""What a terminal confines, what may be read from it, and what it leaves; also as an ordinary user."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from cef_env.errors import SandboxUnavailableError, UserError
from cef_env.sandbox import BoxError, Plan, Tier, resolve
from cef_env.sandbox.docker import connect
from cef_env.sandbox.terminal import CommandResult, Terminal, TerminalLimits
from tests.judge.helpers import tier_or_skip
from tests.sandbox.terminals import FILES, LIMITS, kill_sandbox, namespaces, shown, still_works
from tests.sandbox.test_box import ROOT, as_nobody, ordinary_python


def test_identity_and_isolation(terminal: Terminal) -> None:
    if namespaces(terminal)._uid is not None:
        assert int(shown(terminal, "id -u")) >= 20_000
    assert (
        shown(terminal, "id -un; whoami; echo $HOME; hostname; cat /proc/net/route | wc -l")
        == "user\nuser\n/work\nbox\n1\n"
    )
    status = shown(terminal, "grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status").split()
    assert status == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert shown(
        terminal,
        "unshare -U true 2>/dev/null; echo $?; ls /root /home /var /run /srv 2>&1 | grep -c 'No such'",
    ).startswith("1\n")


def test_the_host_is_neither_read_nor_written(terminal: Terminal, tmp_path: Path) -> None:
    namespaces(terminal)
    (tmp_path / "secret").write_text("x")
    assert terminal.run(f"cat {tmp_path}/secret; cat {ROOT}/README.md; ls /etc/shadow").exit_status != 0
    failed = (
        "for f in / /usr /usr/bin /etc /dev /cef /proc/sys/kernel; do touch $f/x 2>/dev/null && echo $f; done"
    )
    assert shown(terminal, failed + "; true") == ""
    assert shown(
        terminal,
        "python3 -c 'import cef_env' 2>&1 | tail -1; /usr/bin/python3 -c 'import numpy' 2>&1 | tail -1",
    ) == ("ModuleNotFoundError: No module named 'cef_env'\nModuleNotFoundError: No module named 'numpy'\n")


def test_a_container_is_gone_after_close_and_when_its_owner_is_killed() -> None:
    plan = tier_or_skip("docker")
    code = """
    from cef_env.sandbox import resolve
    from cef_env.sandbox.terminal import Terminal
    terminal = Terminal(resolve("docker"), {"a": b"x"})
    print(terminal._line._container.id, terminal.run("id -u; touch /x; cat /proc/net/route | wc -l").output.split(), flush=True)
    terminal.run("sleep 1000")
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert owner.stdout is not None
    with owner.stdout:
        number, user, *_, routes = owner.stdout.readline().split()
    assert (user, routes) == ("['1000',", "'1']")
    with Terminal(plan) as terminal:
        ours = terminal._line._container.id  # type: ignore[attr-defined]
    owner.kill()
    owner.wait()
    with contextlib.closing(connect()) as client:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and number in [c.id for c in client.containers.list(all=True)]:
            time.sleep(0.1)
        assert not {number, ours} & {c.id for c in client.containers.list(all=True)}


def test_a_plan_without_namespaces_is_refused() -> None:
    with pytest.raises(SandboxUnavailableError, match="no terminal in the tier landlock"):
        Terminal(Plan(Tier.LANDLOCK, user_namespace=False))


def test_only_its_own_processes_are_visible(terminal: Terminal) -> None:
    assert len(shown(terminal, "ls /proc | grep -c '^[0-9]'; true")) <= 2
    terminal.run("kill -9 -1; kill -9 1; kill 1")
    assert terminal.alive
    assert terminal.run("echo alive").output == "alive\n"


def test_python_and_compiler(terminal: Terminal) -> None:
    assert shown(terminal, "python3 -c 'import sys; print(*sys.version_info[:2])'") == "{} {}\n".format(
        *sys.version_info
    )
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    code = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }"
    assert shown(terminal, f"cat > a.cpp <<'E'\n{code}\nE\ng++ -O1 a.cpp -o a && ./a < samples/1.in") == "3"


def test_a_full_disk(terminal: Terminal) -> None:
    assert "No space left" in terminal.run("head -c 100000000 /dev/zero > big").output
    still_works(terminal)
    assert (
        "No space left"
        in terminal.run("rm big; for i in $(seq 9000); do : > f$i; done 2>&1 | tail -1").output
    )
    still_works(terminal)
    assert shown(terminal, "rm f*; echo x > y; cat y /dev/shm/* 2>/dev/null") == "x\n"


def test_memory(terminal: Terminal) -> None:
    result = terminal.run("python3 -c 'x = bytearray(3 << 30)'")
    assert result.exit_status != 0
    still_works(terminal)


def test_a_fork_bomb_ends_with_the_command_that_is_stopped(hasty: Terminal) -> None:
    hasty.run("bomb() { bomb | bomb; }; bomb")
    hasty.run("python3 -c 'import os\nwhile 1:\n  try: os.fork()\n  except OSError: pass'")
    hasty.run("sleep 5")
    assert hasty.run("ls samples | cat").output == "1.in\n"


def test_cpu_time_of_the_whole_life() -> None:
    limits = TerminalLimits(timeout_s=20, cpu_s=0.5)
    with Terminal(tier_or_skip("cgroups"), limits=limits) as terminal:
        assert terminal.run("while :; do :; done").stopped
        assert "0.5 s, is used up" in terminal.run("echo hello").output


def test_reading_files(terminal: Terminal) -> None:
    terminal.run(
        "printf abc > a; mkdir -p d/e; echo deep > d/e/f; ln -s d/e/f inside; ln -s /etc/passwd out; ln -s / top"
    )
    terminal.run(
        "ln -s $PWD/a absolute; ln -s loop loop; mkfifo pipe; ln -s ../../../../../etc/passwd up; top=root; ln -s /proc/self/$top/etc/passwd magic"
    )
    assert (
        terminal.read("a")
        == terminal.read("/work/a")
        == terminal.read("./d/../a")
        == terminal.read("absolute")
        == b"abc"
    )
    assert terminal.read("inside") == terminal.read("top/work/d/e/f") == b"deep\n"
    assert terminal.read("a", most=2) == b"ab"
    for path in (
        "out",
        "up",
        "loop",
        "pipe",
        "d",
        "none",
        "/etc/passwd",
        "../etc/passwd",
        "",
        "magic",
        "a\0",
        "/dev/zero",
        "a/b",
        "x" * 5000,
    ):
        assert terminal.read(path) is None, path
    terminal.run("cd d")
    assert terminal.read("e/f") == b"deep\n"


def test_a_file_unreadable_to_its_owner_is_read_or_absent(terminal: Terminal) -> None:
    terminal.run("echo x > closed; chmod 0 closed")
    assert terminal.read("closed") in (b"x\n", None)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", ".", "a\0b"])
def test_file_names_outside_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="file name"):
        Terminal(resolve(), {name: b""})


def test_a_dead_sandbox_is_an_instrument_fault(terminal: Terminal) -> None:
    kill_sandbox(terminal)
    assert not terminal.alive
    with pytest.raises(BoxError):
        terminal.run("echo")
    with pytest.raises(BoxError):
        terminal.read("statement.md")


def test_a_sandbox_that_dies_in_the_middle_is_an_instrument_fault(terminal: Terminal) -> None:
    threading.Timer(0.3, kill_sandbox, [terminal]).start()
    start = time.monotonic()
    with pytest.raises(BoxError):
        terminal.run("sleep 15")
    assert time.monotonic() - start < 5


def test_many_at_once_and_one_that_blocks_stops_no_other(terminal: Terminal) -> None:
    plan = terminal._line.plan
    others = [Terminal(plan, limits=LIMITS) for _ in range(4 if plan.tier == "docker" else 16)]
    blocked = threading.Thread(target=terminal.run, args=("sleep 2",))
    results: list[CommandResult] = []
    threads = [
        threading.Thread(target=lambda t=t: results.append(t.run("sleep 0.5; echo x"))) for t in others
    ]
    try:
        blocked.start()
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - start < 2.0
        assert [result.output for result in results] == ["x\n"] * len(others)
        assert blocked.is_alive()
    finally:
        blocked.join()
        for other in others:
            other.close()


def test_nothing_is_left_after_close(terminal: Terminal) -> None:
    plan = namespaces(terminal).plan

    def left() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(threading.enumerate())

    with Terminal(plan) as first:
        first.run("true")
    before = left()
    for _ in range(5):
        with Terminal(plan) as other:
            other.run("sleep 100 & setsid sleep 100 & exit")
            line = namespaces(other)
            pids = [line._process.pid, line._init, line._shell]
        assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        if line._cgroup:
            assert not [folder for folder in line._cgroup.folders if folder.exists()]
    assert left() == before


def test_a_killed_owner_leaves_nothing(terminal: Terminal) -> None:
    code = f"""
    import os, time
    from cef_env.sandbox import resolve
    from cef_env.sandbox.terminal import Terminal
    terminal = Terminal(resolve({namespaces(terminal).plan.tier.value!r}))
    terminal.run("setsid sleep 54321 & sleep 54321 &")
    print(terminal._line._init, terminal._line._shell, terminal._line._process.pid, flush=True)
    terminal.run("sleep 54321")
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert owner.stdout is not None
    with owner.stdout:
        pids = owner.stdout.readline().split()
    assert len(pids) == 3
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    deadline = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def test_many_descriptors_in_the_caller_do_not_matter() -> None:
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(600)]
    try:
        with Terminal(resolve(), FILES) as terminal:
            assert terminal.run("exit 4").exit_status == 4
            still_works(terminal)
    finally:
        for fd in held:
            os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_works_as_an_ordinary_user() -> None:
    python = ordinary_python()
    if python is None:
        pytest.skip("no Python here that uid 65534 may read")
    import pexpect

    code = f"""
    import sys
    sys.path += [{str(Path(pexpect.__file__).parents[1])!r}]
    from cef_env.sandbox import resolve
    from cef_env.sandbox.terminal import Terminal, TerminalLimits
    with Terminal(resolve(), {{"a/b": b"x"}}, TerminalLimits(timeout_s=1)) as terminal:
        for command in ("id -u; cat a/b; echo", "exit 3", "sleep 9", "cat /proc/$$/mem | wc -c", "bash -c 'trap \\"\\" 2 3 15; while :; do :; done'", "echo end"):
            print(terminal.run(command))
        print(terminal.read("a/b"))
    """
    done = as_nobody(python, textwrap.dedent(code))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == str(CommandResult("65534\nx\n", 0, "/work", False, 0, False))
    assert lines[1] == str(CommandResult("exit\n", 3, "/work", False, 0, True))
    assert "stopped=True" in lines[2]
    assert "Permission denied" in lines[3]
    assert "stopped=True" in lines[4]
    assert lines[5] == str(CommandResult("end\n", 0, "/work", False, 0, False))
    assert lines[6] == "b'x'"
