"""What a terminal does with commands of every kind, on every tier."""

import contextlib
import gc
import os
import signal
import time

import pytest

from cef_env.sandbox import resolve
from cef_env.sandbox.terminal import CommandResult, Terminal
from cef_env.sandbox.transcript import shorten
from tests.judge.helpers import tier_or_skip
from tests.sandbox.terminals import FILES, LIMITS, SHORT, TIERS, namespaces, shown, still_works


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


def open_files() -> dict[str, str]:
    files = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing
            files[name] = os.readlink(f"/proc/self/fd/{name}")
    return files


@pytest.mark.parametrize("tier", TIERS)
def test_a_closed_terminal_leaves_no_file_open(tier: str) -> None:
    plan = tier_or_skip(tier)
    before = open_files()
    gc.disable()  # which would close what was left open, late and with a warning
    try:
        with Terminal(plan, FILES, SHORT) as terminal:
            assert terminal.run("sleep 100").stopped
            assert terminal.run("exit 3").restarted
            assert shown(terminal, "echo $((6 * 7))") == "42\n"
        assert open_files() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("tier", TIERS)
def test_what_a_script_started_in_the_background_interrupts_all_the_same(tier: str) -> None:
    """There the shell lets its children ignore these signals, and they would hand that on."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        with Terminal(tier_or_skip(tier), FILES, SHORT) as terminal:
            result = terminal.run("python3 -c 'while True: pass'")
            assert "KeyboardInterrupt" in result.output
            assert shown(terminal, "trap '' HUP INT QUIT; trap -p HUP INT QUIT | wc -l") == "3\n"
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)


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
