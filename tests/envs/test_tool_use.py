"""The tool-use setting: calls and answers, what the tool's results look like, and what a fault leads to."""

from dataclasses import dataclass, field

import gymnasium as gym
import pytest

from cef_env.envs import CutText, ToolUseEnv
from cef_env.envs.text import fenced
from cef_env.envs.tools import call_text
from cef_env.errors import InstrumentError, UserError
from cef_env.judge import Judge
from cef_env.problems import Problem
from cef_env.sandbox import BoxError
from cef_env.sandbox.python_tool import ToolResult
from tests.envs.stubs import StubJudge, shown


@dataclass
class StubTool:
    """Prints the code; dies when told to."""

    codes: list[str] = field(default_factory=list)
    resets: int = 0
    closed: int = 0

    def run(self, code: str) -> ToolResult:
        if code == "die":
            raise BoxError("the sandbox is gone")
        self.codes.append(code)
        return ToolResult(f"{code}\n", False, "", 0)

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> list[StubTool]:
    opened: list[StubTool] = []

    def start(env: ToolUseEnv) -> StubTool:
        opened.append(StubTool())
        return opened[-1]

    monkeypatch.setattr(ToolUseEnv, "_open", start)
    return opened


def python(code: str) -> str:
    return call_text("python", "code", code)


def stubbed(**arguments: object) -> ToolUseEnv:
    env = ToolUseEnv(problems=[shown()], judge=StubJudge(), **arguments)  # type: ignore[arg-type]
    env.reset(seed=0)
    return env


def test_an_episode_from_a_trial_to_the_verdict(judge: Judge) -> None:
    env = gym.make("cef/ToolUse-v0", problems=[shown()], judge=judge, render_mode="ansi")
    observation, info = env.reset(seed=0)
    assert '<tool_call>\n{"name": "python", "arguments": {"code": "..."}}\n</tool_call>' in observation
    assert info["turns"] == 0
    observation, reward, terminated, truncated, _ = env.step(f"I try it.\n{python('print(2 * 21)')}")
    assert observation == "<tool_response>\n42\n</tool_response>\nMessages left: 7\n"
    assert (reward, terminated, truncated) == (0.0, False, False)
    observation, reward, terminated, truncated, info = env.step(fenced("print(2 * int(input()))"))
    assert (observation, reward, terminated, truncated) == ("Outcome: correct\n", 1.0, True, False)
    assert (info["turns"], info["tool_calls"], info["coverage_reached"]) == (2, 1, 2)
    assert "<tool_response>\n42" in env.render()
    env.close()


@pytest.mark.parametrize(("state", "output"), [("call", "NameError"), ("episode", "42")])
def test_names_stay_for_a_call_or_for_the_episode(judge: Judge, state: str, output: str) -> None:
    env = ToolUseEnv(problems=[shown()], judge=judge, tool_state=state)
    env.reset(seed=0)
    env.step(python("a = 42"))
    assert output in env.step(python("print(a)"))[0]
    env.reset(seed=0)
    assert "NameError" in env.step(python("print(a)"))[0]
    env.close()


def test_limits_are_told_and_the_episode_goes_on(judge: Judge) -> None:
    env = ToolUseEnv(problems=[shown()], judge=judge, tool_time_s=0.5, tool_memory_mb=128, tool_output=100)
    assert "0.5 s of CPU time and 128 MiB" in env.reset(seed=0)[0]
    assert "more than 0.5 s" in env.step(python("while True: pass"))[0]
    assert "more than 128 MiB" in env.step(python("a = bytearray(1 << 30)"))[0]
    observation = env.step(python("print('x' * 5000)"))[0]
    assert len(observation) < 250
    assert "49" in observation  # how many characters were cut
    assert env.step(python("print(1)"))[0].startswith("<tool_response>\n1\n")
    env.close()


def test_the_same_actions_give_the_same_observations(judge: Judge) -> None:
    def play() -> list[str]:
        env = ToolUseEnv(problems=[shown()], judge=judge)
        observations = [env.reset(seed=1)[0]]
        for code in ("print(hash('a'), {'b', 'a'})", "1 / 0", "import time; time.sleep(0.05)", "("):
            observations.append(env.step(python(code))[0])
        env.close()
        return observations

    assert play() == play()


def test_a_sandbox_killed_from_outside_is_an_instrument_fault(tools: list[StubTool]) -> None:
    env = stubbed()
    env.step(python("one"))
    with pytest.raises(InstrumentError, match="sandbox is gone"):
        env.step(python("die"))
    with pytest.raises(gym.error.ResetNeeded):
        env.step(python("two"))
    env.reset(seed=0)
    assert env.step(fenced("good"))[1] == 1


def test_calls_of_a_message_share_one_turn_and_are_answered_in_order(tools: list[StubTool]) -> None:
    env = stubbed()
    observation, _, _, _, info = env.step(python("one") + "<tool_call>{}</tool_call>" + python("two"))
    assert tools[0].codes == ["one", "two"]
    first, second, third = observation.split("</tool_response>\n")[:3]
    assert first == "<tool_response>\none\n"
    assert "This tool call was not run" in second
    assert third == "<tool_response>\ntwo\n"
    assert (info["turns"], info["tool_calls"]) == (1, 2)


def test_a_call_that_cannot_be_read_costs_a_turn_and_is_explained(tools: list[StubTool]) -> None:
    env = stubbed()
    observation, _, terminated, _, info = env.step('<tool_call>{"name": "bash"}</tool_call>')
    assert "there is no tool 'bash'; the tools are: python" in observation
    assert '{"name": "python", "arguments": {"code": "..."}}' in observation
    assert (terminated, info["turns"], info["tool_calls"]) == (False, 1, 0)
    assert not tools


def test_a_call_that_prints_nothing_says_so(tools: list[StubTool]) -> None:
    assert stubbed().step(python(""))[0].startswith("<tool_response>\n[no output]\n</tool_response>\n")


def test_running_out_of_turns_is_a_format_error_and_a_truncation(tools: list[StubTool]) -> None:
    env = stubbed(max_turns=2)
    env.step(python("one"))
    _, reward, terminated, truncated, info = env.step(python("two"))
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["outcome"], info["format_error"]) == ("format_error", "out_of_turns")
    assert tools[0].codes == ["one"]


def test_an_answer_in_the_last_turn_counts() -> None:
    assert stubbed(max_turns=1).step(fenced("good"))[1:4] == (1.0, True, False)


@pytest.mark.parametrize(
    ("action", "cause"),
    [
        ("I give up.", "no_code"),
        (CutText("I was about to"), "out_of_tokens"),
        (CutText('<tool_call>{"name": "python", "arguments": {"code": "pri'), "out_of_tokens"),
    ],
)
def test_a_message_without_program_and_call_ends_the_episode(action: str, cause: str) -> None:
    _, reward, terminated, _, info = stubbed().step(action)
    assert (reward, terminated, info["format_error"]) == (0.0, True, cause)


def test_the_tool_forgets_between_episodes_and_ends_with_the_environment(tools: list[StubTool]) -> None:
    env = stubbed()
    env.step(python("one"))
    assert tools[0].resets == 0
    env.step(fenced("good"))
    assert tools[0].resets == 1
    env.reset(seed=0)
    env.step(python("one"))
    env.close()
    assert len(tools) == tools[0].closed == 1


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(UserError, match="tool_state='forever'"):
        ToolUseEnv(problems=[shown()], tool_state="forever")


def test_calls_in_the_reasoning_are_thoughts(tools: list[StubTool]) -> None:
    env = stubbed()
    env.step(f"<think>I could do {python('one')} first.</think>\n{python('two')}")
    assert tools[0].codes == ["two"]
    assert stubbed().step(f"<think>{python('one')}")[4]["format_error"] == "no_code"


def test_the_code_to_complete_is_part_of_the_question() -> None:
    problem = shown()
    function = Problem("f", "F", "Double it.", problem.tests, function="double")
    env = ToolUseEnv(problems=[function], judge=StubJudge())  # type: ignore[arg-type]
    assert "Complete this code:\n```python\nclass Solution:\n    def double" in env.reset()[0]
