"""Agents from strings: what is made of them, and one line for whatever is mistyped."""

import re
from pathlib import Path
from typing import Any

import pytest

from cef_env.agents import TerminalAgent, make_agent
from cef_env.agents.openai_agent import OpenAIAgent
from cef_env.agents.transformers_agent import TransformersAgent
from cef_env.errors import UserError
from cef_env.problems import ProblemSet

OWN = """
class Agent:
    def __init__(self, word="hello"):
        self.word = word
    def act(self, messages):
        return self.word
def factory(word="made"):
    return Agent(word)
def fails():
    raise RuntimeError("no luck\\ntoday")
def refuses():
    from cef_env.errors import UserError
    raise UserError("set THING=1")
def leaves():
    raise SystemExit(0)
def nothing():
    return None
def makes_class():
    return Agent
def solve(statement, terminal):
    return None
def answers(messages):
    return ""
ready = Agent("ready")
number = 5
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_agent.py").write_text(OWN)
    (tmp_path / "bad_syntax.py").write_text("def (\n")
    (tmp_path / "bad_import.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "bad_line.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("spec", "options", "word"),
    [
        ("own_agent:Agent", {}, "hello"),
        ("own_agent:Agent", {"word": "hi"}, "hi"),
        ("own_agent:factory", {}, "made"),
        ("own_agent:ready", {}, "ready"),
    ],
)
def test_classes_factories_and_instances_are_agents(
    doubles: ProblemSet, spec: str, options: dict[str, Any], word: str
) -> None:
    assert make_agent(spec, doubles, **options).act([]) == word


@pytest.mark.usefixtures("own")
def test_a_function_over_a_terminal_is_an_agent(doubles: ProblemSet) -> None:
    assert isinstance(make_agent("own_agent:solve", doubles), TerminalAgent)


def test_models_take_temperature_and_max_new_tokens_alike(
    doubles: ProblemSet, tiny: tuple[Any, Any], tmp_path: Path
) -> None:
    for part in tiny:
        part.save_pretrained(tmp_path)
    options: dict[str, Any] = {"temperature": 0.5, "max_new_tokens": 7}
    local = make_agent(f"hf:{tmp_path}", doubles, **options)
    remote = make_agent("openai:m@http://localhost:1/v1", doubles, **options)
    assert isinstance(local, TransformersAgent)
    assert isinstance(remote, OpenAIAgent)
    assert (
        (local.temperature, local.max_new_tokens) == (remote.temperature, remote.max_new_tokens) == (0.5, 7)
    )


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("", {}, "is not understood; use scripted:NAME, hf:PATH, vllm:PATH"),
        ("own_agent", {}, "is not understood"),
        (":x", {}, "is not understood"),
        ("hf:", {}, "is not understood"),
        ("scripted:magic", {}, "magic"),
        ("scripted:efficient", {"temperature": 1.0}, "unexpected keyword argument 'temperature'"),
        ("hf:/nowhere", {}, "no config.json"),
        ("hf:/nowhere", {"temprature": 1.0}, "unexpected keyword argument 'temprature'"),
        ("openai:gpt", {}, "use openai:MODEL@URL"),
        ("openai:gpt@localhost:8000", {}, "use openai:MODEL@URL"),
        ("openai:@http://localhost:8000", {}, "use openai:MODEL@URL"),
        ("openai:m@http://localhost:1/v1", {"tempo": 1}, "unexpected keyword argument 'tempo'"),
        ("openai:m@http://localhost:x/v1", {}, "is no address"),
        ("openai:m@http://localhost:1/v1", {"max_new_tokens": 0}, "max_new_tokens=0"),
        ("nowhere_agent:x", {}, "No module named 'nowhere_agent'"),
        ("own_agent.:x", {}, "own_agent."),
        (".own_agent:x", {}, "own_agent"),
        ("own_agent:Agnet", {}, "no attribute 'Agnet'"),
        ("own_agent:Agent", {"wrod": 1}, "unexpected keyword argument 'wrod'"),
        ("own_agent:ready", {"word": "x"}, "unexpected keyword argument 'word'"),
        ("own_agent:solve", {"temperature": 1.0}, "unexpected keyword argument 'temperature'"),
        ("own_agent:fails", {}, r"cannot be made: RuntimeError: no luck today \(.*own_agent.py, line 10\)"),
        ("own_agent:refuses", {}, "^set THING=1$"),
        ("own_agent:leaves", {}, "cannot be made: SystemExit: 0"),
        ("exits:x", {}, r"exits cannot be imported: SystemExit: 0 \(.*exits.py, line 2\)"),
        ("own_agent:nothing", {}, r"what it returned has no act\(messages\)"),
        ("own_agent:answers", {}, "is a function of messages; give an object or a class with act"),
        ("own_agent:makes_class", {}, r"what it returned has no act\(messages\)"),
        ("own_agent:number", {}, "cannot be called to make one"),
        ("bad_syntax:x", {}, r"cannot be imported: SyntaxError: .*\(bad_syntax.py, line 1\)"),
        ("bad_import:x", {}, "No module named 'nowhere_to_be_found'"),
        ("bad_line:x", {}, r"cannot be imported: ZeroDivisionError: .*bad_line.py, line 2\)"),
        ("json:dumps", {}, "missing a required argument: 'obj'"),
    ],
)
def test_what_is_mistyped_is_one_line(
    doubles: ProblemSet, spec: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as error:
        make_agent(spec, doubles, **options)
    assert re.search(message, str(error.value))
    assert "\n" not in str(error.value)


def test_a_missing_vllm_is_named_with_its_extra(doubles: ProblemSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    with pytest.raises(UserError, match=r'pip install "cef-env\[vllm\]"'):
        make_agent("vllm:/nowhere", doubles)
