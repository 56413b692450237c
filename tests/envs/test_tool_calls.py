"""Tool calls as models write them: each way to err that is forgiven, and what is said of the rest."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.envs.agentic import AgenticEnv
from cef_env.envs.tool_calls import MOST_CALLS, ToolCall, Unreadable, parse_tool_calls
from cef_env.envs.tool_use import ToolUseEnv
from cef_env.envs.tools import call_text

PYTHON, TERMINAL = ToolUseEnv.tools, AgenticEnv.tools
HELLO = ToolCall("python", 'print("hello")')

OBJECT = '{"name": "python", "arguments": {"code": "print(\\"hello\\")"}}'
FORGIVEN = {
    "as the template says": f"Let me try.\n<tool_call>\n{OBJECT}\n</tool_call>",
    "closing tag eaten by a stop string": f"<tool_call>\n{OBJECT}\n",
    "opening tag written by the template": f"\n{OBJECT}\n</tool_call>",
    "fence inside the tags": f"<tool_call>\n```json\n{OBJECT}\n```\n</tool_call>",
    "fence around the tags": f"```xml\n<tool_call>\n{OBJECT}\n</tool_call>\n```",
    "fence in place of the tags": f"I run it:\n```json\n{OBJECT}\n```\nThen I see.",
    "no tags at all": OBJECT,
    "text before the object": f"<tool_call>\npython: {OBJECT}\n</tool_call>",
    "single quotes": "<tool_call>{'name': 'python', 'arguments': {'code': 'print(\"hello\")'}}</tool_call>",
    "triple quotes": (
        '<tool_call>{"name": "python", "arguments": {"code": """print("hello")"""}}</tool_call>'
    ),
    "trailing commas": (
        '<tool_call>{"name": "python", "arguments": {"code": "print(\\"hello\\")",},}</tool_call>'
    ),
    "a brace missing at the end": (
        '<tool_call>\n{"name": "python", "arguments": {"code": "print(\\"hello\\")"}\n</tool_call>'
    ),
    "a brace too many": (
        '<tool_call>\n{"name": "python", "arguments": {"code": "print(\\"hello\\")"}}}\n</tool_call>'
    ),
    "quotes not escaped": (
        '<tool_call>\n{"name": "python", "arguments": {"code": "print("hello")"}}\n</tool_call>'
    ),
    "names without quotes": '<tool_call>{name: "python", arguments: {code: \'print("hello")\'}}</tool_call>',
    "arguments as a string of JSON": (
        '<tool_call>{"name": "python", '
        '"arguments": "{\\"code\\": \\"print(\\\\\\"hello\\\\\\")\\"}"}</tool_call>'
    ),
    "arguments as the argument": (
        '<tool_call>{"name": "python", "arguments": "print(\\"hello\\")"}</tool_call>'
    ),
    "arguments beside the name": '<tool_call>{"name": "python", "code": "print(\\"hello\\")"}</tool_call>',
    "parameters for arguments": (
        '<tool_call>{"name": "python", "parameters": {"code": "print(\\"hello\\")"}}</tool_call>'
    ),
    "the call under function": (
        '<tool_call>{"type": "function", "function": {"name": "python", "arguments": '
        '{"code": "print(\\"hello\\")"}}}</tool_call>'
    ),
    "a name in other case": (
        '<tool_call>{"name": "Python", "arguments": {"code": "print(\\"hello\\")"}}</tool_call>'
    ),
    "more arguments than there are": (
        '<tool_call>{"name": "python", "arguments": {"code": "print(\\"hello\\")", "timeout": 5}}</tool_call>'
    ),
}


@pytest.mark.parametrize("text", FORGIVEN.values(), ids=FORGIVEN)
def test_what_is_forgiven(text: str) -> None:
    assert parse_tool_calls(text, PYTHON) == [HELLO]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            '{"name": "python", "arguments": {"code": "for i in range(2):\n\tprint(i)\n"}}',
            "for i in range(2):\n\tprint(i)\n",
        ),
        ("{'name': 'python', 'arguments': {'code': 'a = 1\nprint(a)'}}", "a = 1\nprint(a)"),
        ('{"name": "python", "arguments": {"code": "re.findall(\'\\d+\', s)"}}', "re.findall('\\d+', s)"),
        (
            '{"name": "python", "arguments": {"code": "print("a\\nb", {"k": [1]})"}}',
            'print("a\nb", {"k": [1]})',
        ),
        ('{"name": "python", "arguments": {"code": "s = \'</tool_call>\'"}}', "s = '</tool_call>'"),
        ('{"name": "python", "arguments": {"code": "\\u00e9\\ud83d\\ude00"},}', "é😀"),
        ('{"name": "python", "arguments": {"code": ""}}', ""),
    ],
    ids=[
        "raw lines and tabs",
        "raw lines in single quotes",
        "unknown escape",
        "quotes and braces",
        "a tag in a string",
        "surrogate pair",
        "empty",
    ],
)
def test_code_comes_out_as_it_was_meant(text: str, code: str) -> None:
    assert parse_tool_calls(f"<tool_call>\n{text}\n</tool_call>", PYTHON) == [ToolCall("python", code)]


def test_calls_of_a_message_come_in_order() -> None:
    text = f"First\n{call_text('bash', 'command', 'ls')}\nthen\n{call_text('submit', 'path', 'a.py')}"
    assert parse_tool_calls(text, TERMINAL) == [ToolCall("bash", "ls"), ToolCall("submit", "a.py")]


def test_objects_of_one_tag_are_calls_each() -> None:
    one, two = (json.dumps({"name": "bash", "arguments": {"command": name}}) for name in ("ls", "pwd"))
    wanted = [ToolCall("bash", "ls"), ToolCall("bash", "pwd")]
    assert parse_tool_calls(f"<tool_call>\n{one}\n{two}\n</tool_call>", TERMINAL) == wanted
    assert parse_tool_calls(f"<tool_call>[{one}, {two}]</tool_call>", TERMINAL) == wanted


def test_a_good_call_before_a_broken_one_is_run() -> None:
    text = call_text("bash", "command", "ls") + '<tool_call>{"name": "bash", "arguments": {"command": "cat'
    first, second = parse_tool_calls(text, TERMINAL)
    assert first == ToolCall("bash", "ls")
    assert isinstance(second, Unreadable)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I would use <tool_call> for that.", "no JSON object"),
        ("<tool_call>print(1)</tool_call>", "no JSON object"),
        ('<tool_call>{"name": "python", "arguments": {"code": "print(', "a string does not end"),
        ('<tool_call>{"name": "search", "arguments": {"query": "x"}}</tool_call>', "the tools are: python"),
        ('<tool_call>{"name": "a\\u001b[2J"}</tool_call>', r"no tool 'a\\x1b[2J'"),
        ('<tool_call>{"arguments": {"code": "print(1)"}}</tool_call>', '"name"'),
        ('<tool_call>{"name": "python", "arguments": {"source": "print(1)"}}</tool_call>', '"code"'),
        ('<tool_call>{"name": "python", "arguments": {"code": ["print(1)"]}}</tool_call>', "a string"),
        ('<tool_call>{"name": "python", "arguments": {"code": "a\\u0000"}}</tool_call>', "NUL"),
        ('<tool_call>{"name": "python", "arguments": {"code": "\\ud800"}}</tool_call>', "surrogate"),
        (call_text("python", "code", "x" * (1 << 21)), "longer than"),
        ("<tool_call>" + '{"a":' * 100_000, "too many braces"),
    ],
)
def test_the_rest_is_explained(text: str, reason: str) -> None:
    (call,) = parse_tool_calls(text, PYTHON)
    assert isinstance(call, Unreadable)
    assert reason in call.reason
    assert "\n" not in call.reason


@pytest.mark.parametrize(
    "text",
    ["", "print(1)", "```python\nprint({})\n```", '```json\n{"name": "x"}\n```', '{"a": 1}', "{" * 100_000],
)
def test_a_message_without_calls_has_none(text: str) -> None:
    assert parse_tool_calls(text, PYTHON) == []


def test_calls_beyond_the_most_are_not_run_and_that_is_said() -> None:
    calls = parse_tool_calls(call_text("python", "code", "1") * 100, PYTHON)
    assert calls[:MOST_CALLS] == [ToolCall("python", "1")] * MOST_CALLS
    (rest,) = calls[MOST_CALLS:]
    assert isinstance(rest, Unreadable)
    objects = '{"name": "python", "arguments": {"code": "1"}}' * 100
    assert len(parse_tool_calls(f"<tool_call>{objects}</tool_call>", PYTHON)) == MOST_CALLS + 1


@given(st.text())
def test_what_is_written_as_told_is_read_exactly(code: str) -> None:
    if "\0" not in code:
        assert parse_tool_calls(call_text("python", "code", code), PYTHON) == [ToolCall("python", code)]


PIECES = ["<tool_call>", "</tool_call>", "{", "}", "[", "]", '"', "'", "\\", ",", ":", "\n", '"""', "\\u12"]
PIECES += ["```json\n", "name", "python", "arguments", "code", "\ud800", "\0", "é"]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join))
def test_no_text_makes_it_raise(text: str) -> None:
    assert all(isinstance(call, ToolCall | Unreadable) for call in parse_tool_calls(text, PYTHON))


@pytest.mark.parametrize("prefix", ["", '<tool_call>{"name": "python", "arguments": {"code": "'])
@pytest.mark.parametrize(
    "unit",
    ["<tool_call>", '<tool_call>{"', '{"a":', '<tool_call>{"a":["\n', '"', '\\"', "```\n", '"""', "'", "\n"],
)
def test_ten_megabytes_take_seconds_at_most(prefix: str, unit: str) -> None:
    text = prefix + unit * (10_000_000 // len(unit))
    started = time.process_time()
    parse_tool_calls(text, PYTHON)
    assert time.process_time() - started < 8
