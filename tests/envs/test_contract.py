"""What Gymnasium asks of every environment: checks without a warning, specs, vectors, and bad input."""

import json
import time
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from cef_env.envs import AgenticEnv, CutText, ReasoningEnv, RepairEnv, ToolUseEnv
from cef_env.envs.base import CodingEnv
from cef_env.envs.text import fenced
from cef_env.envs.tools import call_text
from cef_env.errors import JudgeError, UserError
from cef_env.judge import Judge, JudgeResult
from cef_env.rewards import CoverageReward
from tests.conftest import no_warnings
from tests.envs.stubs import StubJudge, StubTerminal, shown

IDS = ("cef/Reasoning-v0", "cef/ToolUse-v0", "cef/Agentic-v0", "cef/Repair-v0")
CLASSES: tuple[type[CodingEnv], ...] = (ReasoningEnv, ToolUseEnv, AgenticEnv, RepairEnv)
FAILED = {"program": "bad", "problem_id": "shown"}


def made(env_class: type[CodingEnv], judge: object = None, **arguments: object) -> CodingEnv:
    """An environment in the middle of nothing, reset."""
    env = env_class(problems=[shown()], judge=judge or StubJudge(), **arguments)  # type: ignore[arg-type]
    env.reset(seed=0, options=FAILED if env_class is RepairEnv else None)
    return env


def answered(env: CodingEnv, program: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The last message of an episode whose answer is `program`."""
    if not isinstance(env, AgenticEnv):
        return fenced(program)
    monkeypatch.setattr(AgenticEnv, "_open", lambda env: StubTerminal({"a.py": program.encode()}))
    return call_text("submit", "path", "a.py")


@pytest.mark.parametrize("id_", IDS)
def test_check_env_warns_of_nothing(id_: str) -> None:
    env = gym.make(id_, render_mode="ansi", coverage=2, problems="builtin:easy?count=8")
    with no_warnings():
        check_env(env.unwrapped)


@pytest.mark.parametrize("id_", IDS)
def test_the_spec_rebuilds_environment_and_wrapper(id_: str) -> None:
    env = CoverageReward(gym.make(id_, coverage=3, problems="builtin:easy?count=4"), coverage=2)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.get_wrapper_attr("coverage") == 2
    assert again.unwrapped.coverage == 3
    assert again.reset(seed=1)[0] == env.reset(seed=1)[0]


@pytest.mark.parametrize("id_", IDS)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_vectors_of_gymnasium_work(id_: str, mode: str) -> None:
    kwargs = {"shared_memory": False} if mode == "async" else {}
    envs = gym.make_vec(id_, 2, mode, kwargs, problems="builtin:easy?count=4")
    observations, infos = envs.reset(seed=3)
    envs.step(("prose", "more prose"))
    envs.close()
    single = gym.make(id_, problems="builtin:easy?count=4")
    assert (observations[0], infos["problem_id"][0]) == (
        single.reset(seed=3)[0],
        single.unwrapped.problem.id,
    )


@pytest.mark.parametrize("id_", IDS)
def test_shared_memory_fails_loudly(id_: str) -> None:
    with pytest.raises(ValueError, match="shared_memory=False"):
        gym.make_vec(id_, 2, "async", {"shared_memory": True}, problems="builtin:easy?count=4")


@pytest.mark.parametrize("env_class", CLASSES)
@pytest.mark.parametrize("action", [None, b"bytes", 3, ["text"]])
def test_an_action_that_is_no_text_changes_nothing(env_class: type[CodingEnv], action: object) -> None:
    env = made(env_class)
    with pytest.raises(UserError, match="action of type"):
        env.step(action)  # type: ignore[arg-type]
    assert env.step("prose")[4]["problem_id"] == "shown"


@pytest.mark.parametrize("env_class", CLASSES)
@pytest.mark.parametrize(
    "action",
    [
        "",
        "\0",
        "\ud800",
        "```python\n\0\n```",
        "```python\n'\udc80\ud800'\n```",
        "x" * 10_000_000,
    ],
    ids=["empty", "NUL", "surrogate", "NUL in code", "surrogate in code", "10 MB"],
)
def test_any_text_is_an_action(env_class: type[CodingEnv], judge: Judge, action: str) -> None:
    env = made(env_class, judge)
    observation, reward, *_ = env.step(action)
    assert observation
    assert reward == 0
    env.close()


def test_ten_megabytes_of_program_are_judged(judge: Judge) -> None:
    program = "n = int(input())\n" + "#" * 10_000_000 + "\nprint(2 * n)"
    assert made(ReasoningEnv, judge).step(fenced(program))[1] == 1


@pytest.mark.parametrize("env_class", CLASSES)
def test_after_the_end_comes_reset(env_class: type[CodingEnv], monkeypatch: pytest.MonkeyPatch) -> None:
    env = made(env_class)
    action = answered(env, "good", monkeypatch)
    assert env.step(action)[1:4] == (1.0, True, False)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(action)
    with pytest.raises(gym.error.ResetNeeded):
        env_class(problems=[shown()]).step(action)


@pytest.mark.parametrize("env_class", CLASSES)
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"colour": 1}, "'colour' is unknown"),
        ({"problem_id": "no"}, "'no'"),
        ({"problem_id": [1]}, "problem_id="),
    ],
)
def test_reset_options_that_make_no_sense(
    env_class: type[CodingEnv], options: dict[str, object], named: str
) -> None:
    env = made(env_class)
    with pytest.raises(UserError, match=named):
        env.reset(options=options)
    with pytest.raises(gym.error.ResetNeeded):  # a failed reset leaves no episode
        env.step("prose")


@pytest.mark.parametrize("env_class", CLASSES)
def test_a_judge_that_fails_gives_no_reward_and_reset_mends_it(
    env_class: type[CodingEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flaky(StubJudge):
        broken = False

        def run(self, *args: object, **kwargs: object) -> JudgeResult:
            if self.broken:
                raise JudgeError("the box died twice")
            return super().run(*args, **kwargs)  # type: ignore[arg-type]

    judge = Flaky()
    env = made(env_class, judge)
    action = answered(env, "good", monkeypatch)
    judge.broken = True
    with pytest.raises(JudgeError):
        env.step(action)
    assert env.result is None
    with pytest.raises(gym.error.ResetNeeded):
        env.step(action)
    judge.broken = False
    env.reset(seed=0, options=FAILED if env_class is RepairEnv else None)
    assert env.step(action)[1] == 1


@pytest.mark.parametrize("env_class", CLASSES)
def test_infos_are_json_and_hold_no_times(
    env_class: type[CodingEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = made(env_class)
    info = env.step(answered(env, "good", monkeypatch))[4]
    assert not any(isinstance(value, float) for value in info.values())
    json.dumps(info)


@pytest.mark.parametrize("env_class", CLASSES)
def test_an_exhaustive_environment_runs_every_test(
    env_class: type[CodingEnv], judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = made(env_class, judge, exhaustive=True)
    env.step(answered(env, "n = int(input())\nprint(2 * n if n > 1 else 0)", monkeypatch))
    assert env.result is not None
    assert [str(test.verdict) for test in env.result.tests] == ["wrong_answer", "accepted", "accepted"]


@pytest.mark.parametrize("env_class", CLASSES)
def test_the_conversation_is_rendered(env_class: type[CodingEnv], monkeypatch: pytest.MonkeyPatch) -> None:
    env = made(env_class, render_mode="ansi")
    action = answered(env, "good", monkeypatch)
    env.step(action)
    shown_text = env.render()
    assert shown_text is not None
    assert shown_text.startswith("[problem shown]\nRead one integer")
    assert action in shown_text
    assert shown_text.endswith("[outcome] correct\n")
    assert made(env_class).render() is None


@pytest.mark.parametrize("env_class", CLASSES)
def test_a_step_costs_less_than_a_millisecond(
    env_class: type[CodingEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without judge, sandbox and model; the target on an idle machine is 1 ms for each step."""
    env = made(env_class)
    action = answered(env, "good", monkeypatch)
    costs = []
    for _ in range(30):
        env.reset(seed=0, options=FAILED if env_class is RepairEnv else None)
        started = time.process_time()
        env.step(action)
        costs.append(time.process_time() - started)
    assert sorted(costs)[15] < 1e-3


@pytest.mark.parametrize("id_", IDS)
def test_a_first_reset_that_fails_does_not_spoil_what_gymnasium_made(id_: str) -> None:
    env = gym.make(id_, problems=[shown()], judge=StubJudge())
    with pytest.raises(UserError):
        env.reset(options={"problem_id": "misspelt"})
    env.reset(seed=0, options=FAILED if "Repair" in id_ else None)
    for _ in range(2):
        assert env.step("prose")[4]["problem_id"] == "shown"
        env.reset(seed=0, options=FAILED if "Repair" in id_ else None)


@pytest.mark.parametrize("options", [5, "abc", [1], True])
def test_reset_options_that_are_no_dict_are_refused(options: object) -> None:
    for env in (
        made(ReasoningEnv),
        gym.make_vec("cef/Reasoning-v0", 2, problems=[shown()], judge=StubJudge()),
    ):
        with pytest.raises(UserError, match=f"of type {type(options).__name__}: give a dict"):
            env.reset(options=options)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("env_class", "arguments", "named"),
    [
        (ReasoningEnv, {"judge": 5}, "judge=5: give a cef_env.judge.Judge"),
        (ReasoningEnv, {"prompt": None}, "prompt=None: use plain"),
        (ReasoningEnv, {"prompt": []}, r"prompt=\[\]: use plain"),
        (ToolUseEnv, {"tool_state": []}, r"tool_state=\[\]: use call or episode"),
        (ToolUseEnv, {"tool_time_s": 1e300}, r"tool_time_s=1e\+300: use a positive number up to 10\^9"),
        (ToolUseEnv, {"tool_time_s": 10**400}, "tool_time_s=10"),
        (ToolUseEnv, {"tool_memory_mb": 10**10}, "tool_memory_mb=10"),
        (AgenticEnv, {"command_time_s": 10**400}, "command_time_s=10"),
        (AgenticEnv, {"terminal_cpu_s": 1e300}, "terminal_cpu_s=1e"),
    ],
)
def test_arguments_of_a_wrong_kind_or_size_are_named(
    env_class: type[CodingEnv], arguments: dict[str, object], named: str
) -> None:
    with pytest.raises(UserError, match=named):
        env_class(problems=[shown()], **arguments)  # type: ignore[arg-type]


def test_a_cut_answer_stays_cut_through_the_wrappers_of_gymnasium() -> None:
    env = gym.make("cef/ToolUse-v0", problems=[shown()], judge=StubJudge())
    env.reset(seed=0)
    assert env.step(CutText("```python\nprint("))[4]["format_error"] == "out_of_tokens"


@pytest.mark.parametrize("env_class", CLASSES)
def test_the_page_of_the_documentation_is_the_docstring(env_class: type[CodingEnv]) -> None:
    import inspect

    name = {"Reasoning": "reasoning", "ToolUse": "tool_use", "Agentic": "agentic", "Repair": "repair"}[
        env_class.__name__.removesuffix("Env")
    ]
    page = (Path(__file__).parents[2] / "docs" / "environments" / f"{name}.md").read_text()
    docstring = inspect.cleandoc(env_class.__doc__ or "")
    assert docstring in page
    arguments = docstring.partition("## Arguments\n")[2].partition("\n## ")[0]
    for parameter in inspect.signature(env_class).parameters:
        assert f"- `{parameter}`: " in arguments
    named = {line.split("`")[1] for line in arguments.splitlines() if line.startswith("- `")}
    assert named == set(inspect.signature(env_class).parameters)
