"""What a terminal does with commands of every kind, on every tier; and as an ordinary user."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cef_env.errors import SandboxUnavailableError, UserError
from cef_env.sandbox import BoxError, Plan, Tier, resolve
from cef_env.sandbox.docker import connect
from cef_env.sandbox.pty_line import PtyLine
from cef_env.sandbox.terminal import CommandResult, Terminal, TerminalLimits
from cef_env.sandbox.transcript import shorten
from tests.judge.helpers import tier_or_skip
from tests.sandbox.test_box import ROOT, as_nobody, ordinary_python

TIERS = ("cgroups", "rlimits", "docker")
FILES = {"statement.md": b"Add two numbers.\n", "samples/1.in": b"1 2\n"}
LIMITS = TerminalLimits(timeout_s=20.0, output_characters=4000)
SHORT = TerminalLimits(timeout_s=0.4, output_characters=4000)


@pytest.fixture(scope="module", params=TIERS)
def shared(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """For commands that leave nothing behind."""
    with Terminal(tier_or_skip(request.param), FILES, LIMITS) as terminal:
        yield terminal


@pytest.fixture(params=TIERS)
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    with Terminal(tier_or_skip(request.param), FILES, LIMITS) as terminal:
        yield terminal


@pytest.fixture(params=TIERS)
def hasty(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """One that stops commands soon."""
    with Terminal(tier_or_skip(request.param), FILES, SHORT) as terminal:
        yield terminal


def namespaces(terminal: Terminal) -> PtyLine:
    """The line of a terminal in bubblewrap, for tests of what only that confines; skips others."""
    if not isinstance(terminal._line, PtyLine):
        pytest.skip("only in bubblewrap")
    return terminal._line


def kill_sandbox(terminal: Terminal) -> None:
    if isinstance(terminal._line, PtyLine):
        terminal._line._process.kill()
        terminal._line._process.wait()
    else:
        terminal._line._container.kill()  # type: ignore[attr-defined]


def shown(terminal: Terminal, command: str) -> str:
    result = terminal.run(command)
    assert not result.stopped, result
    assert not result.restarted, result
    return result.output


def still_works(terminal: Terminal) -> None:
    """The terminal answers, and with the answer to this command."""
    assert terminal.run("echo $((6 * 7))") == CommandResult("42\n", 0, "/work", False, 0, False)


def test_output_status_and_folder(shared: Terminal) -> None:
    assert shared.run("echo out; echo err >&2; (exit 7)") == CommandResult(
        "out\nerr\n", 7, "/work", False, 0, False
    )
    assert shared.run("cd samples && pwd").folder == "/work/samples"
    assert shown(shared, "cat 1.in; cd /work") == "1 2\n"


def test_state_survives_from_command_to_command(shared: Terminal) -> None:
    shared.run("a=5; f() { echo f$1; }; export B=6; (exit 3)")
    assert shown(shared, "echo $? $a $B; f 7; bash -c 'echo $B'") == "3 5 6\nf7\n6\n"


def test_output_without_a_newline_at_its_end(shared: Terminal) -> None:
    assert shown(shared, "printf abc") == "abc"
    assert shown(shared, "true") == ""


@pytest.mark.parametrize(
    ("command", "output", "status"),
    [
        ("echo 'open", "unexpected EOF", 2),
        ('echo "open', "unexpected EOF", 2),
        ("echo $(", "unexpected EOF", 1),
        ("if true; then", "syntax error", 2),
        (")", "syntax error", 2),
        ("cat <<END\nline $((1 + 1))", "line 2\n", 0),
        ("cat <<'END'\n$x \\n '\"\nEND\necho after", "$x \\n '\"\nafter\n", 0),
        ("for i in 1 2\ndo\n  echo $i\ndone", "1\n2\n", 0),
        ("# only a comment", "", 0),
        ("", "", 0),
        ("\n\n", "", 0),
        ("echo a; # comment", "a\n", 0),
        ("echo one \\\n two", "one two\n", 0),
        ("echo 'é ü 漢' '\\x41' \"!\" !!", "é ü 漢 \\x41 ! !!\n", 0),
        ("printf '%s' $'\\003\\004\\032'", "^C^D^Z", 0),
        ("nosuchcommand", "bash: nosuchcommand: command not found\n", 127),
        ("echo \r\n", "", 0),
    ],
)  # fmt: skip
def test_what_people_type(shared: Terminal, command: str, output: str, status: int) -> None:
    result = shared.run(command)
    assert output in result.output
    assert (result.exit_status, result.stopped, result.restarted) == (status, False, False)
    still_works(shared)


def test_programs_that_read_stdin_find_it_empty(shared: Terminal) -> None:
    assert shown(
        shared, "cat; read line; echo got:$line; python3; wc -c; python3 -c 'print(open(0).read())'"
    ) == ("got:\n0\n\n")


def test_a_long_command_passed_by_pipe_does_not_become_stdin(shared: Terminal) -> None:
    assert shown(shared, f"# {'x' * 200_000}\nwc -c") == "0\n"


def test_long_lines(shared: Terminal) -> None:
    for size in (4_090, 4_096, 5_000, 100_000):
        assert shown(shared, f"x='{'a' * size}'; echo ${{#x}}") == f"{size}\n"


def test_commands_of_10_mb() -> None:
    with Terminal(resolve(), limits=LIMITS) as terminal:
        assert shown(terminal, f"x='{'a' * 10_000_000}'; echo ${{#x}}") == "10000000\n"
        assert "longer than 16 MiB" in terminal.run("x" * (17 << 20)).output


def test_a_nul_is_refused_with_a_reason(shared: Terminal) -> None:
    result = shared.run("echo a\0b")
    assert "NUL" in result.output
    assert (result.exit_status, result.stopped) == (2, False)
    still_works(shared)


def test_lone_surrogates_reach_the_shell_as_bytes(shared: Terminal) -> None:
    assert shown(shared, "printf '%s' '\udcff' | od -An -tx1") == " ff\n"
    assert "not valid" in shared.run("echo '\ud800'").output


def test_binary_output_shows_no_control_characters(shared: Terminal) -> None:
    output = shown(
        shared, "head -c 20000 /dev/urandom; printf '\\033[31mred\\033[0m\\a\\r\\nx\\ry\\0\\377\\tz\\n'"
    )
    assert output.endswith("red^G\nx\ny^@\\xff\tz\n")
    assert not [c for c in output if c not in "\n\t" and (ord(c) < 32 or 127 <= ord(c) < 160)]
    still_works(shared)


def test_the_middle_of_long_output_is_cut_and_counted(shared: Terminal) -> None:
    result = shared.run("seq 400000; echo end")
    first, last = result.output[:1990], result.output[-1990:]
    assert first.startswith("1\n2\n3\n")
    assert last.endswith("399999\n400000\nend\n")
    whole = len("\n".join(map(str, range(1, 400_001)))) + len("\nend\n")
    assert result.cut == whole - 4000
    assert f"[... {result.cut} characters left out ...]" in result.output


@pytest.mark.parametrize("most", [0, 1, 2, 9, 10, 11, 100])
def test_cutting_keeps_first_and_last_characters(most: int) -> None:
    text, cut = shorten("äbcdefghij".encode(), most)
    assert cut == max(0, 10 - most)
    if cut:
        assert text.startswith("äbcdefghij"[: most - most // 2])
        assert text.endswith("äbcdefghij"[10 - most // 2 :])
    else:
        assert text == "äbcdefghij"


def test_output_is_the_same_every_time(terminal: Terminal) -> None:
    command = "sleep 0.01 & true & wait; jobs; sh -c 'kill -SEGV $$'; sh -c 'kill -9 $$'; python3 -c 'print({1: set(\"ab\")})'"
    first = terminal.run(command)
    assert first.output.startswith("{1: ")
    assert [terminal.run(command).output for _ in range(3)] == [first.output] * 3


def test_a_background_job_that_prints_at_the_end_of_a_command(terminal: Terminal) -> None:
    for _ in range(30):
        assert not terminal.run("for i in 1 2 3 4 5; do echo x; done &").stopped
    assert shown(terminal, "wait; echo end").endswith("end\n")


def test_background_jobs_go_on_and_announce_nothing(terminal: Terminal) -> None:
    assert shown(terminal, "(sleep 0.1; echo late > late) & echo started") == "started\n"
    assert shown(terminal, "wait; cat late") == "late\n"
    assert shown(terminal, "true") == ""


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("sleep 100", ""),
        ("python3 -c 'while True: pass'", "KeyboardInterrupt"),
        ("while :; do :; done", ""),
        ("exec 3< <(sleep 100); cat <&3", ""),
        ("(trap '' INT; sleep 100)", ""),
        ("bash -c 'trap \"\" INT QUIT TERM; while :; do :; done'", ""),
        ("kill -STOP $BASHPID & wait; sh -c 'kill -STOP $$'", ""),
        ("yes", "y\ny\n"),
        ("setsid sleep 100 | cat", ""),
    ],
)
def test_commands_over_their_time_are_stopped(hasty: Terminal, command: str, output: str) -> None:
    start = time.monotonic()
    hasty.run("a=kept")
    result = hasty.run(command)
    assert result.stopped
    assert result.exit_status is None
    assert output in result.output
    assert time.monotonic() - start < 6
    assert hasty.run("echo $a").output == "kept\n"


@pytest.mark.parametrize(
    "command", ["trap '' INT QUIT TERM; while :; do :; done", "kill -STOP $$", "builtin() { :; }; sleep 9"]
)
def test_a_shell_that_does_not_come_back_is_replaced(hasty: Terminal, command: str) -> None:
    hasty.run("echo x > file")
    result = hasty.run(command)
    assert (result.stopped, result.restarted, result.exit_status) == (True, True, None)
    assert shown(hasty, "cat file") == "x\n"


@pytest.mark.parametrize(
    ("command", "output", "status"),
    [
        ("exit 3", "exit\n", 3),
        ("echo a; exit", "a\nexit\n", 0),
        ("set -e; false; echo no", "", 1),
        ("exec ls samples", "1.in\n", 0),
        ("kill -9 $$", "", 137),
        ("kill -SEGV $$", "", 139),
        ("logout 2>/dev/null || exit 5", "exit\n", 5),
    ],
)  # fmt: skip
def test_an_ended_shell_is_replaced_in_the_same_files(
    terminal: Terminal, command: str, output: str, status: int
) -> None:
    shown(terminal, "echo x > file; cd samples; a=5; cd ..")
    assert terminal.run(command) == CommandResult(output, status, "/work", False, 0, True)
    assert shown(terminal, "cat file; echo [$a]") == "x\n[]\n"


def test_processes_of_an_ended_shell_do_not_hold_the_next_up(terminal: Terminal) -> None:
    assert terminal.run("sleep 100 & exit 1").restarted
    still_works(terminal)


@pytest.mark.parametrize(
    "command",
    [
        "stty echo 2>/dev/null; stty raw <&1; stty sane <&2",
        "exec 0<&-",
        "exec 0</etc/passwd",
        "set -x; true; set +x",
        "PS1='prompt$ '; PS2='more> '; PROMPT_COMMAND='echo prompted'",
        "set -o history; set -o histexpand; set -o vi; set -v",
        "trap 'echo debug $BASH_COMMAND' DEBUG; trap - DEBUG",
        "alias printf=false source=false true=false; unalias -a",
        "printf() { echo forged; }; unset -f printf",
        "set -u; unset x; echo $x; set +u",
        "IFS=:; unset IFS",
        "exec 62>/dev/null; exec 62>&-",
        "shopt -s extglob failglob; shopt -u failglob extglob",
        "readonly PS1",
        "ulimit -n 100",
        "export PATH=/nowhere; PATH=/usr/bin:/bin",
    ],
)
def test_a_shell_in_a_strange_state_still_answers(terminal: Terminal, command: str) -> None:
    terminal.run(command)
    still_works(terminal)
    still_works(terminal)


def test_redirected_output_stays_hidden_and_the_terminal_works(terminal: Terminal) -> None:
    assert shown(terminal, "exec >/dev/null 2>&1; echo hidden") == ""
    assert terminal.run("cd samples").folder == "/work/samples"


def test_a_trap_does_not_show_the_key(terminal: Terminal) -> None:
    terminal.run("trap 'echo debug $BASH_COMMAND' DEBUG")
    assert "printf" not in shown(terminal, "true")
    terminal.run("trap - DEBUG; set -o history")
    assert "printf" not in shown(terminal, "history; fc -l 2>&1")


def test_what_programs_can_read_of_the_shell(terminal: Terminal) -> None:
    """Neither memory, environment nor input: nothing to forge the end of a command with."""
    namespaces(terminal)
    program = """
import os
shell = os.getppid()
for name in ("mem", "environ", "maps", "fd/0", "syscall"):
    try:
        with open(f"/proc/{shell}/{name}", "rb") as file: file.read(1); print("read", name)
    except OSError as error: print(type(error).__name__, end=" ")
for fd in (1, 2):
    try: os.read(fd, 1); print("read", fd)
    except OSError as error: print(type(error).__name__, end=" ")
try: os.open("/dev/stdout", os.O_RDWR)
except OSError as error: print(type(error).__name__, end=" ")
try: import fcntl, termios; fcntl.ioctl(1, termios.TIOCSTI, b"x"); print("pushed")
except OSError as error: print(type(error).__name__)
"""
    assert not set(shown(terminal, f"python3 -c '{program}'").split()) - {"PermissionError", "OSError"}
    assert shown(terminal, "tr '\\0' ' ' < /proc/$$/cmdline") == "bash --norc --noprofile --noediting -i "


def test_output_that_looks_like_a_mark_is_output(terminal: Terminal) -> None:
    key = "0123456789abcdef" * 2
    assert shown(terminal, f"echo {key}1:0:/work:{key}") == f"{key}1:0:/work:{key}\n"


def test_nothing_can_hang_the_terminal_up(terminal: Terminal) -> None:
    shown(
        terminal,
        "setsid sh -c 'exec 5<>/dev/stdout' 2>&1; setsid --ctty true <&1 2>&1; setsid --ctty true <&2; true",
    )
    still_works(terminal)


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
        "ln -s $PWD/a absolute; ln -s loop loop; mkfifo pipe; ln -s ../../../../../etc/passwd up; ln -s /proc/self/root/etc/passwd magic"
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
