"""The agentic setting: what the terminal holds, how episodes end, and what a fault leads to."""

import time
from pathlib import Path

import gymnasium as gym
import pytest

from cef_env.envs import AgenticEnv, CutText
from cef_env.envs.agentic import MOST_BYTES, working_folder
from cef_env.envs.tools import call_text
from cef_env.errors import InstrumentError, UserError
from cef_env.judge import Judge
from cef_env.problems import Problem, ProblemSet
from tests.envs.stubs import StubJudge, StubTerminal, shown

FILES = {"a.py": b"good", "bad.py": b"\xff", "large.py": b"#" * (MOST_BYTES + 1), "good.cpp": b"good"}


def bash(command: str) -> str:
    return call_text("bash", "command", command)


def submit(path: str) -> str:
    return call_text("submit", "path", path)


@pytest.fixture
def terminals(monkeypatch: pytest.MonkeyPatch) -> list[StubTerminal]:
    """The stub terminals that environments of this test open."""
    opened: list[StubTerminal] = []

    def start(env: AgenticEnv) -> StubTerminal:
        opened.append(StubTerminal(dict(FILES)))
        return opened[-1]

    monkeypatch.setattr(AgenticEnv, "_open", start)
    return opened


def stubbed(**arguments: object) -> AgenticEnv:
    env = AgenticEnv(problems=[shown()], judge=StubJudge(), **arguments)  # type: ignore[arg-type]
    env.reset(seed=0)
    return env


def test_an_episode_from_the_samples_to_the_verdict(judge: Judge) -> None:
    env = gym.make("cef/Agentic-v0", problems=[shown()], judge=judge, render_mode="ansi")
    observation, _ = env.reset(seed=0)
    assert "Read one integer" in observation
    assert '"name": "bash"' in observation
    observation = env.step(bash("cat statement.md samples/1.in; ls samples"))[0]
    assert "Read one integer and print its double.\n1" in observation
    env.step(bash("cat > a.py <<'E'\nprint(2 * int(input()) + 1)\nE\npython3 a.py < samples/1.in"))
    observation = env.step(
        bash("sed -i 's/ + 1//' a.py; python3 a.py < samples/1.in | diff - samples/1.out")
    )[0]
    assert observation == "<tool_response>\n[exit status 0]\n</tool_response>\nMessages left: 17\n"
    observation, reward, terminated, truncated, info = env.step(submit("a.py"))
    assert (observation, reward, terminated, truncated) == ("Outcome: correct\n", 1.0, True, False)
    assert (info["language"], info["program"], info["turns"]) == ("python", "print(2 * int(input()))\n", 4)
    assert "diff - samples/1.out" in env.render()
    env.close()


def test_cpp_is_handed_in_by_its_suffix(judge: Judge) -> None:
    env = AgenticEnv(problems=[shown()], judge=judge)
    env.reset(seed=0)
    program = "#include <iostream>\nint main() { long long n; std::cin >> n; std::cout << 2 * n; }"
    info = env.step(bash(f"cat > a.cpp <<'E'\n{program}\nE") + submit("a.cpp"))[4]
    assert info["language"] == "cpp17"
    assert env.result is not None
    assert env.result.reward(1) == 1
    env.close()


def test_hidden_tests_are_nowhere_in_the_sandbox(judge: Judge) -> None:
    env = AgenticEnv(problems=[shown()], judge=judge)
    env.reset(seed=0)
    search = "grep -rl -e 424242 -e 848484 . /tmp 2>/dev/null; env | grep 424242; echo searched"
    assert env.step(bash(search))[0].startswith("<tool_response>\nsearched\n")
    assert set(working_folder(shown())) == {"statement.md", "samples/1.in", "samples/1.out"}
    env.close()


def test_the_same_actions_give_the_same_observations(judge: Judge) -> None:
    def play() -> list[str]:
        env = AgenticEnv(problems=[shown()], judge=judge)
        observations = [env.reset(seed=1)[0]]
        for action in (bash("ls -a; sleep 0.05 & wait; exit 3"), "prose", bash("pwd"), submit("no.py")):
            observations.append(env.step(action)[0])
        env.close()
        return observations

    assert play() == play()


def test_nothing_is_started_before_the_first_call(terminals: list[StubTerminal]) -> None:
    env = stubbed()
    observation, _, terminated, _, info = env.step("I think about it.")
    assert not terminals
    assert not terminated
    assert "calls no tool" in observation
    assert info["turns"] == 1


def test_calls_of_a_message_share_one_turn_and_end_with_submit(terminals: list[StubTerminal]) -> None:
    env = stubbed()
    info = env.step(bash("one") + bash("two") + submit("a.py") + bash("three"))[4]
    assert terminals[0].commands == ["one", "two"]
    assert (info["turns"], info["tool_calls"], info["outcome"]) == (1, 3, "correct")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a.rs", "suffix"),
        ("a", "suffix"),
        ("missing.py", "no such file"),
        ("bad.py", "UTF-8 at byte 0"),
        ("large.py", "larger than"),
    ],
)
def test_a_file_that_cannot_be_judged_is_explained(
    terminals: list[StubTerminal], path: str, why: str
) -> None:
    env = stubbed()
    observation, _, terminated, truncated, _ = env.step(submit(path))
    assert why in observation
    assert not terminated
    assert not truncated


def test_a_function_is_not_handed_in_as_cpp(terminals: list[StubTerminal]) -> None:
    problem = shown()
    function = Problem("f", "F", "Double.", problem.tests, function="double")
    env = AgenticEnv(problems=[function], judge=StubJudge())  # type: ignore[arg-type]
    env.reset(seed=0)
    assert "a function in Python" in env.step(submit("good.cpp"))[0]


def test_a_machine_without_compiler_takes_no_cpp(
    terminals: list[StubTerminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "no C++ compiler" in stubbed().step(submit("good.cpp"))[0]


def test_running_out_of_turns_is_a_format_error_and_a_truncation(terminals: list[StubTerminal]) -> None:
    env = stubbed(max_turns=2)
    assert env.step(bash("one"))[0].endswith("Messages left: 1\n")
    _, reward, terminated, truncated, info = env.step(bash("two"))
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["outcome"], info["format_error"]) == ("format_error", "out_of_turns")
    assert terminals[0].commands == ["one"]


def test_the_last_turn_may_write_and_submit(terminals: list[StubTerminal]) -> None:
    env = stubbed(max_turns=1)
    assert env.step(bash("write") + submit("a.py"))[4]["outcome"] == "correct"
    assert terminals[0].commands == ["write"]


@pytest.mark.parametrize("action", ["I was about to", '<tool_call>{"name": "bash", "arguments": {"comm'])
def test_a_message_that_was_cut_before_its_call_is_out_of_tokens(action: str) -> None:
    _, reward, terminated, _, info = stubbed().step(CutText(action))
    assert (reward, terminated, info["format_error"]) == (0.0, True, "out_of_tokens")


def test_a_sandbox_that_dies_ends_the_episode_without_reward(terminals: list[StubTerminal]) -> None:
    env = stubbed()
    env.step(bash("one"))
    with pytest.raises(InstrumentError, match="sandbox is gone"):
        env.step(bash("die"))
    assert terminals[0].closed
    with pytest.raises(gym.error.ResetNeeded):
        env.step(bash("two"))
    env.reset(seed=0)
    assert env.step(submit("a.py"))[1] == 1.0


def test_a_terminal_killed_from_outside_is_an_instrument_fault(judge: Judge) -> None:
    env = AgenticEnv(problems=[shown()], judge=judge)
    env.reset(seed=0)
    env.step(bash("true"))
    assert env._terminal is not None
    env._terminal._line._process.kill()  # as the machine may, when memory runs out
    env._terminal._line._process.wait(10)
    while Path(f"/proc/{env._terminal._line._shell}").exists():
        time.sleep(0.01)
    with pytest.raises(InstrumentError):
        env.step(bash("true"))
    env.reset(seed=0)
    assert "[exit status 0]" in env.step(bash("true"))[0]
    env.close()


def test_the_terminal_is_closed_when_the_episode_is(terminals: list[StubTerminal]) -> None:
    env = stubbed()
    env.step(submit("a.py"))
    assert terminals[0].closed
    env.reset(seed=0)
    env.step(bash("one"))
    env.reset(seed=0)
    assert terminals[1].closed
    env.step(bash("one"))
    env.close()
    assert terminals[2].closed


def test_no_process_is_left_behind(judge: Judge) -> None:
    def processes() -> set[str]:
        tasks = Path("/proc/self/task").glob("*/children")
        return {child for task in tasks for child in task.read_text().split()}

    env = AgenticEnv(problems=[shown()], judge=judge)
    before = processes()
    for seed in range(5):
        env.reset(seed=seed)
        env.step(bash("sleep 100 & echo"))
    env.close()
    assert processes() == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"max_turns": 0}, "max_turns=0"),
        ({"max_turns": 2.5}, "max_turns=2.5"),
        ({"command_time_s": -1}, "command_time_s=-1"),
        ({"command_time_s": float("nan")}, "command_time_s=nan"),
        ({"command_output": True}, "command_output=True"),
        ({"terminal_cpu_s": "1"}, "terminal_cpu_s='1'"),
        ({"terminal_memory_mb": 0}, "terminal_memory_mb=0"),
        ({"sandbox": "none"}, "sandbox='none'"),
        ({"exhaustive": 1}, "exhaustive=1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(UserError, match=named):
        AgenticEnv(problems=ProblemSet.of([shown()]), **arguments)  # type: ignore[arg-type]
