"""Tool calls in what a model wrote, read as tolerantly as models err.

A call is `<tool_call>{"name": "python", "arguments": {"code": "..."}}</tool_call>`. Read as well:

- a tag that is never closed (stop strings eat it) or never opened (a template wrote it);
- several calls in one message, and several objects in one tag;
- code fences inside or around the tags, or in their place; other text before the object;
- raw line breaks and tabs in strings, single and triple quotes, trailing commas, unknown escapes, braces
  missing at the end, quotes that were not escaped;
- `arguments` as a string that holds JSON, or that is the argument; `parameters` for `arguments`; arguments
  beside the name instead of under `arguments`; the call under `function`; a name in other case.

What cannot be read becomes `Unreadable`, whose reason is for the model. Never raises, and takes time
linear in the text. Does not run calls.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cef_env.envs.lenient import NotReadableError, read_value, unescape
from cef_env.envs.text import extract_program
from cef_env.envs.tools import CLOSE, OPEN, Tool
from cef_env.judge.difference import readable

MOST_CALLS = 8
"""Calls that one message may make."""
MOST_CHARACTERS = 1 << 20
"""Of an argument, and of a call that is not quite JSON."""

_DECODER = json.JSONDecoder(strict=False)  # raw line breaks and tabs may stand in strings
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_BETWEEN = re.compile(r"[\s,]*+")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that can be run."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What was meant as a call."""

    reason: str
    """One line that says why it cannot be run."""


Call = ToolCall | Unreadable


def parse_tool_calls(text: str, tools: Sequence[Tool]) -> list[Call]:
    """The calls of a message, in order; none if it makes none.

    After `MOST_CALLS` calls one `Unreadable` stands for the rest.
    """
    position = text.find(OPEN)
    calls = _untagged(text, tools) if position < 0 else []
    while position >= 0 and len(calls) <= MOST_CALLS:
        found, position = _tagged(text, position + len(OPEN), tools)
        calls += found
        position = text.find(OPEN, position)
    if len(calls) <= MOST_CALLS:
        return calls
    return [*calls[:MOST_CALLS], Unreadable(f"it comes after the first {MOST_CALLS} of its message")]


def _untagged(text: str, tools: Sequence[Tool]) -> list[Call]:
    """Calls whose opening tag, or both tags, are missing."""
    if CLOSE in text:
        return _tagged(text, 0, tools)[0]
    for candidate in (text, extract_program(text) or ""):
        candidate = candidate.strip()
        if candidate.startswith("{") and candidate.endswith("}"):
            try:
                value = _DECODER.decode(candidate)
            except (ValueError, RecursionError):
                continue
            # Only what is surely meant as a call: an answer may be JSON, too.
            if isinstance(value, dict) and value.get("name") in [tool.name for tool in tools]:
                return [_call(value, tools)]
    return []


def _tagged(text: str, start: int, tools: Sequence[Tool]) -> tuple[list[Call], int]:
    """The calls of the tag that opens before `start`, and where the search for the next goes on."""
    end = _end(text, start)
    brace = text.find("{", start, end)
    if brace < 0:
        return [Unreadable("it holds no JSON object")], end
    calls: list[Call] = []
    while text.startswith("{", brace) and len(calls) <= MOST_CALLS:
        try:  # strict JSON first: it alone knows whether a tag stands within a string
            value, position = _DECODER.raw_decode(text, brace)
        except (ValueError, RecursionError):
            return [*calls, _mend(text[brace:end], tools)], end
        calls.append(_call(value, tools))
        end = _end(text, position)
        brace = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
    return calls, end


def _end(text: str, start: int) -> int:
    """Where a call that began before `start` ends: its closing tag, the next opening one, or the text."""
    closing = text.find(CLOSE, start)
    opening = text.find(OPEN, start, closing if closing >= 0 else len(text))
    return next((position for position in (opening, closing) if position >= 0), len(text))


def _mend(text: str, tools: Sequence[Tool]) -> Call:
    """A call that is not JSON, from its brace to its end."""
    if len(text) > MOST_CHARACTERS:
        return Unreadable("it is not valid JSON, and too long to be read otherwise")
    reason = "it is not valid JSON"
    try:
        call = _call(read_value(text), tools)
        if isinstance(call, ToolCall):
            return call
        reason = call.reason
    except NotReadableError as error:
        reason = f"{reason} ({error})"
    return _unescaped_quotes(text, tools) or Unreadable(reason)


def _unescaped_quotes(text: str, tools: Sequence[Tool]) -> ToolCall | None:
    """`{"name": "python", "arguments": {"code": "print("hello")"}}`: the last quote ends the argument."""
    for tool in tools:
        name = re.search(rf"[\"']name[\"']\s*+:\s*+[\"']{tool.name}[\"']", text)
        head = re.search(rf"[\"']{tool.argument}[\"']\s*+:\s*+\"", text)
        body = text[head.end() :].rstrip("` \t\r\n},]") if head else ""
        if name and body.endswith('"'):
            call = _checked(tool, unescape(body[:-1]))
            return call if isinstance(call, ToolCall) else None
    return None


def _call(value: object, tools: Sequence[Tool]) -> Call:
    """The call that a JSON value means."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return Unreadable('it is no JSON object with a "name"')
    name = value["name"].strip()
    tool = next((tool for tool in tools if tool.name == name.lower()), None)
    if tool is None:
        known = ", ".join(tool.name for tool in tools)
        return Unreadable(f"there is no tool {readable(name)!r}; the tools are: {known}")
    arguments = value.get("arguments", value.get("parameters", value))
    if isinstance(arguments, str):
        arguments = _from_string(arguments, tool)
    argument = arguments.get(tool.argument) if isinstance(arguments, dict) else None
    if not isinstance(argument, str):
        return Unreadable(f'{tool.name} takes one argument, "{tool.argument}", which is a string')
    return _checked(tool, argument)


def _from_string(arguments: str, tool: Tool) -> object:
    """Arguments that were written as a string: an object again, or the one argument itself."""
    try:
        value = _DECODER.decode(arguments)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {tool.argument: arguments}


def _checked(tool: Tool, argument: str) -> Call:
    """A call with an argument that a program can be given."""
    if len(argument) > MOST_CHARACTERS:
        return Unreadable(f'"{tool.argument}" is longer than {MOST_CHARACTERS} characters')
    if _NO_TEXT.search(argument):
        return Unreadable(f'"{tool.argument}" holds a NUL or half a surrogate pair')
    return ToolCall(tool.name, argument)
