"""Scripted agents in every setting: what they hand in, and that the debugger believes what it sees."""

import gymnasium as gym
import pytest

from cef_env.agents import NAMES, Agent, Message, ScriptedAgent, make_agent, rollout
from cef_env.agents.debugger import passes
from cef_env.envs.tools import call_text
from cef_env.errors import UserError
from cef_env.judge import Judge, Outcome
from cef_env.problems import Problem, ProblemSet, Submission, load
from tests.conftest import double

SETTINGS = ("cef/Reasoning-v0", "cef/ToolUse-v0", "cef/Agentic-v0", "cef/Repair-v0")
GOOD, WRONG = "print(2*int(input()))", "print(2*int(input())+1)"
SHOWN = "n=int(input())\nprint(2*n if n<1000 else 0)"
"""Wrong only where no sample shows it."""


def play(env_id: str, agent: Agent, problems: ProblemSet, judge: Judge) -> list[tuple[Message, ...]]:
    trajectories = rollout(lambda: gym.make(env_id, problems=problems, judge=judge), agent, problems.ids, 0)
    return [trajectory.messages for trajectory in trajectories]


def with_samples(*starts: str) -> ProblemSet:
    """A problem for each program that the debugger may start with; its first two tests are samples."""
    problems = []
    for number, start in enumerate(starts):
        base = double(f"p{number}")
        tests = tuple(type(t)(t.input, t.output, sample=t.length < 30) for t in base.tests)
        bug = Submission("efficient_bug", start, ("correctness_failure",))
        good = Submission("efficient", GOOD, ("correct",))
        statement = f"{base.statement} This is number {number}."
        problems.append(Problem(base.id, base.title, statement, tests, submissions=(bug, good)))
    return ProblemSet.of(problems)


@pytest.mark.parametrize("env_id", SETTINGS)
@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("efficient", Outcome.CORRECT),
        ("brute_force", Outcome.OPTIMIZATION_FAILURE),
        ("efficient_bug", Outcome.CORRECTNESS_FAILURE),
        ("brute_force_bug", Outcome.CORRECTNESS_FAILURE),
    ],
)
def test_a_program_has_its_outcome_in_every_setting(
    judge: Judge, env_id: str, kind: str, outcome: Outcome
) -> None:
    problems = load("builtin:hard?count=12")
    ids = [id_ for id_ in problems.ids if id_.endswith(".large")][:2]
    agent = make_agent(f"scripted:{kind}", problems)
    got = rollout(lambda: gym.make(env_id, problems=problems, judge=judge), agent, ids, seed=0)
    assert [trajectory.outcome for trajectory in got] == [outcome] * 2


@pytest.mark.parametrize("env_id", ["cef/ToolUse-v0", "cef/Agentic-v0"])
def test_the_debugger_goes_over_to_a_correct_program_only_when_a_sample_fails(
    judge: Judge, env_id: str
) -> None:
    problems = with_samples(WRONG, "print(1", "import sys; sys.stdin.read(); raise ValueError", SHOWN, GOOD)
    got = rollout(
        lambda: gym.make(env_id, problems=problems, judge=judge),
        ScriptedAgent("debugger", problems),
        problems.ids,
        seed=0,
    )
    assert [trajectory.outcome for trajectory in got] == [Outcome.CORRECT] * 3 + [
        Outcome.CORRECTNESS_FAILURE,
        Outcome.CORRECT,
    ]
    seen = [trajectory.messages[2]["content"] for trajectory in got]
    assert [f"{good} of 2 samples passed" in text for good, text in zip((0, 0, 0, 2, 2), seen)] == [True] * 5
    handed_in = [trajectory.messages[-1]["content"] for trajectory in got]
    if env_id == "cef/ToolUse-v0":
        assert [GOOD in text for text in handed_in] == [True, True, True, False, True]


def test_the_debugger_reads_what_the_tool_printed_and_nothing_else() -> None:
    """The same start and the same problem, but a tool that says otherwise."""
    problems = with_samples(WRONG)
    agent = ScriptedAgent("debugger", problems)
    env = gym.make("cef/ToolUse-v0", problems=problems)
    question = env.reset(seed=0)[0]
    call = agent.act([{"role": "user", "content": question}])
    conversation: list[Message] = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": call},
    ]
    for printed, program in (("2 of 2 samples passed", WRONG), ("1 of 2 samples passed", GOOD), ("", GOOD)):
        reply = f"<tool_response>\n{printed}\n</tool_response>\nMessages left: 7\n"
        answer = agent.act([*conversation, {"role": "user", "content": reply}])
        assert answer == f"```python\n{program}\n```"


def test_the_debugger_repairs_what_it_is_told_has_failed(judge: Judge) -> None:
    problems = with_samples(WRONG)
    (messages,) = play("cef/Repair-v0", ScriptedAgent("debugger", problems), problems, judge)
    assert GOOD in messages[-1]["content"]
    (messages,) = play("cef/Reasoning-v0", ScriptedAgent("debugger", problems), problems, judge)
    assert WRONG in messages[-1]["content"]


@pytest.mark.parametrize(
    ("output", "passed"),
    [
        ("sample 1: passed\n2 of 2 samples passed", True),
        ("1 of 2 samples passed", False),
        ("0 of 0 samples passed", True),
        ("[stopped: its time was over]", False),
        ("it printed '2 of 2 samples passed'", False),
        ("", False),
    ],
)
def test_an_output_is_a_pass_only_when_it_says_so(output: str, passed: bool) -> None:
    assert passes(output) is passed


def test_the_longest_statement_in_the_message_is_the_one_that_is_asked() -> None:
    programs = {"Print 1.": "print(1)", "Print 1. Then print 2.": "print(1, 2)"}
    tests = double().tests
    problems = ProblemSet.of(
        Problem(str(n), "p", statement, tests, submissions=(Submission("efficient", program),))
        for n, (statement, program) in enumerate(programs.items())
    )
    agent = ScriptedAgent("efficient", problems)
    for statement, program in programs.items():
        assert agent.act([{"role": "user", "content": f"Question:\n{statement}\nAnswer."}]) == (
            f"```python\n{program}\n```"
        )


def test_a_program_that_holds_the_mark_of_a_heredoc_is_written_whole(judge: Judge) -> None:
    program = "print('''\nEND\nEND_\n'''[:0] + str(2*int(input())))"
    base = double()
    problem = Problem("p", "p", base.statement, base.tests, submissions=(Submission("efficient", program),))
    problems = ProblemSet.of([problem])
    trajectories = rollout(
        lambda: gym.make("cef/Agentic-v0", problems=problems, judge=judge),
        ScriptedAgent("efficient", problems),
        ["p"],
        seed=0,
    )
    assert trajectories[0].outcome is Outcome.CORRECT
    assert trajectories[0].messages[-1]["content"] == call_text("submit", "path", "solution.py")


def test_noise_is_a_format_error_and_can_be_repeated(judge: Judge) -> None:
    problems = load("builtin:easy?count=4")

    def played() -> list[Outcome]:
        agent = make_agent("scripted:random_text", problems)
        got = rollout(
            lambda: gym.make("cef/ToolUse-v0", problems=problems, judge=judge), agent, problems.ids, 0
        )
        return [trajectory.outcome for trajectory in got]

    assert Outcome.FORMAT_ERROR in played()
    assert Outcome.CORRECT not in played()
    assert played() == played()


def test_a_statement_that_is_not_of_the_source_is_refused(doubles: ProblemSet) -> None:
    agent = ScriptedAgent("efficient", load("builtin:easy?count=2"))
    with pytest.raises(UserError, match="not of"):
        agent.act([{"role": "user", "content": doubles[0].statement}])
    agent = ScriptedAgent("efficient", doubles)
    with pytest.raises(UserError, match="carries no submission of kind 'efficient'"):
        agent.act([{"role": "user", "content": doubles[0].statement}])


def test_every_name_makes_an_agent(doubles: ProblemSet) -> None:
    for name in NAMES:
        assert callable(make_agent(f"scripted:{name}", doubles).act)


@pytest.mark.parametrize(
    "spec", ["scripted:magic", "hf:", "nowhere:thing", "json:dumps", "json:nothing", "plain"]
)
def test_unknown_agents_are_refused_in_one_line(spec: str, doubles: ProblemSet) -> None:
    with pytest.raises(UserError) as error:
        make_agent(spec, doubles)
    assert "\n" not in str(error.value)


def test_samples_of_the_built_in_problems_show_about_half_of_the_bugs() -> None:
    from cef_env.problems.builtin.execution import exposes

    shown = total = 0
    for problem in load("builtin?count=30"):
        samples = [test for test in problem.tests if test.sample]
        assert samples == list(problem.tests[:2])
        for bug in (s.program for s in problem.submissions if s.kind.endswith("_bug")):
            total += 1
            shown += any(exposes(bug, test.input, test.output) for test in samples)
    assert 0.3 < shown / total < 0.8
