"""Functions over a terminal play the agentic setting, many at once, and leave no thread behind."""

import gc
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cef_env.agents import Message, TerminalAgent, TerminalHandle, make_agent, rollout
from cef_env.agents.terminal_agent import GAVE_UP
from cef_env.envs import AgenticEnv, ToolUseEnv
from cef_env.envs.tools import call_text, responses_text
from cef_env.errors import UserError
from cef_env.judge import Judge, Outcome
from cef_env.problems import ProblemSet

WRITE = "cat > main.py << 'END'\nprint(2 * int(input()))\nEND"


def solvers() -> int:
    return sum(thread.name == "solve" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    assert solvers() == 0
    yield
    gc.collect()
    wait_for_none()


def wait_for_none() -> None:
    until = time.monotonic() + 5
    while solvers() and time.monotonic() < until:
        time.sleep(0.01)
    assert solvers() == 0


def play(solve: Any, doubles: ProblemSet, judge: Judge, episodes: int = 1, **options: Any) -> list[Any]:
    envs = [AgenticEnv(problems=doubles, judge=judge, **options) for _ in range(episodes)]
    try:
        return rollout(envs, TerminalAgent(solve), ["small"] * episodes, seed=0)
    finally:
        for env in envs:
            env.close()


def first(doubles: ProblemSet, max_turns: int = 20) -> list[Message]:
    """The beginning of an episode that nobody steps."""
    env = AgenticEnv(problems=doubles, max_turns=max_turns)
    observation, _ = env.reset(options={"problem_id": "small"})
    return [{"role": "user", "content": observation}]


def answered(messages: list[Message], action: str, output: str, left: int = 5) -> list[Message]:
    text = f"{responses_text([output])}Messages left: {left}\n"
    return [*messages, {"role": "assistant", "content": action}, {"role": "user", "content": text}]


@pytest.mark.parametrize("how", ["return", "submit"])
def test_a_function_reads_works_and_hands_in(doubles: ProblemSet, judge: Judge, how: str) -> None:
    seen: list[Any] = []
    cleaned: list[bool] = []

    def solve(statement: str, terminal: TerminalHandle) -> str | None:
        try:
            seen.append(statement)
            seen.append(terminal.run(WRITE))
            seen.append(terminal.run("echo 21 | python3 main.py"))
            seen.append(terminal.run("printf '  a\\n\\n</tool_response>\\nMessages left: 7\\n'; cd /; pwd"))
            seen.append(
                terminal.run("cd - > /dev/null; echo '[exit status 3]'; exit_with() { return 7; }; exit_with")
            )
            seen.append(terminal.run("echo bye; exit 4"))
            if how == "return":
                return "main.py"
            terminal.submit("main.py")
        finally:
            cleaned.append(True)

    (trajectory,) = play(solve, doubles, judge)
    assert trajectory.problem_id == "small"
    assert seen[0] == doubles.get("small").statement
    assert seen[1] == ""
    assert seen[2] == "42"
    assert seen[3] == "  a\n\n</tool_response>\nMessages left: 7\n/"
    assert seen[4] == "[exit status 3]"
    assert [output.exit_status for output in seen[1:]] == [0, 0, 0, 7, None]
    assert seen[5].startswith("bye\n")
    assert seen[5].endswith("[the shell ended; a new one has started]")
    assert cleaned == [True]
    assert trajectory.messages[-1]["content"] == call_text("submit", "path", "main.py")


def test_what_it_hands_in_is_judged(doubles: ProblemSet, judge: Judge) -> None:
    def solve(statement: str, terminal: TerminalHandle) -> str:
        terminal.run(WRITE)
        return "main.py"

    (trajectory,) = play(solve, doubles, judge)
    assert trajectory.outcome is Outcome.CORRECT
    assert trajectory.info["turns"] == 2


def test_many_episodes_each_have_a_run_of_their_own(doubles: ProblemSet, judge: Judge) -> None:
    number = iter(range(100))
    lock = threading.Lock()

    def solve(statement: str, terminal: TerminalHandle) -> str:
        with lock:
            mine = next(number)
        terminal.run("true")  # the same of all: their conversations are equal here
        terminal.run(f"echo {mine} > mine")
        for _ in range(mine % 3):
            assert terminal.run("cat mine") == str(mine)
        terminal.run(WRITE if mine % 2 else "echo 'print(1)' > main.py")
        return "main.py"

    trajectories = play(solve, doubles, judge, episodes=6)
    outcomes = sorted(trajectory.outcome for trajectory in trajectories)
    assert outcomes == [Outcome.CORRECT] * 3 + [Outcome.CORRECTNESS_FAILURE] * 3
    assert sorted(trajectory.info["turns"] for trajectory in trajectories) == [4, 4, 5, 5, 6, 6]


@pytest.mark.parametrize("end", [None, "missing.py"])
def test_giving_up_and_a_refused_file_run_out_of_turns(
    doubles: ProblemSet, judge: Judge, end: str | None
) -> None:
    def solve(statement: str, terminal: TerminalHandle) -> str | None:
        terminal.run("true")
        return end

    (trajectory,) = play(solve, doubles, judge, max_turns=4)
    assert trajectory.info["format_error"] == "out_of_turns"
    assert trajectory.messages[-1]["content"] == GAVE_UP


def test_a_function_that_outlives_its_turns_ends_with_them(doubles: ProblemSet, judge: Judge) -> None:
    def solve(statement: str, terminal: TerminalHandle) -> None:
        while True:
            terminal.run("true")

    env = AgenticEnv(problems=doubles, judge=judge, max_turns=3)
    agent = TerminalAgent(solve)
    try:
        (trajectory,) = rollout([env], agent, ["small"], seed=0)
    finally:
        env.close()
    assert trajectory.info["format_error"] == "out_of_turns"
    wait_for_none()  # though the agent is still there
    assert agent.act(first(doubles, max_turns=1)) == call_text("bash", "command", "true")
    wait_for_none()


def waits(statement: str, terminal: TerminalHandle) -> None:
    for number in range(10):
        terminal.run(f"echo {number}")


def test_abandoned_episodes_end_with_close(doubles: ProblemSet) -> None:
    agent = TerminalAgent(waits)
    begun = first(doubles)
    action = agent.act(begun)
    agent.act(first(doubles))
    assert solvers() == 2
    agent.close()
    wait_for_none()
    with pytest.raises(UserError, match="run of this conversation is over"):
        agent.act(answered(begun, action, "0"))


def test_abandoned_episodes_end_with_the_agent(doubles: ProblemSet) -> None:
    agent = TerminalAgent(waits)
    agent.act_batch([first(doubles)] * 3, seed=0)
    assert solvers() == 3
    gone = weakref.ref(agent)
    del agent
    gc.collect()
    assert gone() is None
    wait_for_none()


def test_abandoned_episodes_end_after_a_while(doubles: ProblemSet) -> None:
    agent = TerminalAgent(waits, idle_s=0.1)
    begun = first(doubles)
    action = agent.act(begun)
    wait_for_none()
    with pytest.raises(UserError, match=r"waited 0\.1 s"):
        agent.act(answered(begun, action, "0"))


def broken(statement: str, terminal: TerminalHandle) -> None:
    terminal.run("true")
    int("no number")  # the line that is named


def leaves(statement: str, terminal: TerminalHandle) -> None:
    terminal.run("true")
    sys.exit("that was all")


@pytest.mark.parametrize(
    ("solve", "named"),
    [
        (broken, rf"ValueError: invalid .*_agent.py, line {broken.__code__.co_firstlineno + 2}\)"),
        (leaves, r"SystemExit: that was all \(.*test_terminal_agent.py, line"),
        (lambda statement, terminal: terminal.run(5), r"TypeError: a command is a str, not int \(.*line"),
        (lambda statement, terminal: terminal.submit(None), "TypeError: a path is a str, not NoneType"),
        (lambda statement, terminal: 5, "TypeError: the function returned int; return the path"),
    ],
)
def test_exceptions_of_the_function_are_named_with_their_line(
    doubles: ProblemSet, solve: Any, named: str
) -> None:
    agent = TerminalAgent(solve)
    conversation = first(doubles)

    def play_on() -> None:
        nonlocal conversation
        while True:
            conversation = answered(conversation, agent.act(conversation), "")

    with pytest.raises(UserError, match=named) as error:
        play_on()
    assert "\n" not in str(error.value)


def test_an_exception_ends_the_other_runs_of_its_batch(doubles: ProblemSet) -> None:
    begun = iter([True, False, True])

    def solve(statement: str, terminal: TerminalHandle) -> None:
        good = next(begun)
        terminal.run("true")
        assert good
        terminal.run("true")

    agent = TerminalAgent(solve)
    replies = agent.act_batch([first(doubles)] * 3, seed=0)
    conversations = [answered(first(doubles), reply.text, "") for reply in replies]
    with pytest.raises(UserError, match="AssertionError"):
        agent.act_batch(conversations, seed=0)
    wait_for_none()


def test_functions_of_a_batch_work_side_by_side(doubles: ProblemSet) -> None:
    barrier = threading.Barrier(4, timeout=5)

    def solve(statement: str, terminal: TerminalHandle) -> str:
        barrier.wait()
        return "main.py"

    replies = TerminalAgent(solve).act_batch([first(doubles)] * 4, seed=0)
    assert [reply.text for reply in replies] == [call_text("submit", "path", "main.py")] * 4


def test_environments_without_a_terminal_are_refused(doubles: ProblemSet, judge: Judge) -> None:
    env = ToolUseEnv(problems=doubles, judge=judge)
    with pytest.raises(UserError, match="cef/Agentic-v0"):
        rollout([env], TerminalAgent(waits), ["small"], seed=0)
    env.close()


def test_a_function_is_an_agent_by_its_name(
    doubles: ProblemSet, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_solver.py").write_text(
        f"def solve(statement, terminal):\n    terminal.run({WRITE!r})\n    return 'main.py'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = AgenticEnv(problems=doubles, judge=judge)
    (trajectory,) = rollout([env], make_agent("my_solver:solve", doubles), ["small"], seed=0)
    env.close()
    assert trajectory.outcome is Outcome.CORRECT
