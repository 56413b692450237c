"""How conversations look in a terminal: who speaks, code in colour, tools and what they print set apart.

What a tool printed begins with a bar, so that it can be told without colours. Control characters of what
models and programs wrote are escaped. Does not read files: see `showing.py`.
"""

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from cef_env.commands.console import plain

if TYPE_CHECKING:
    from cef_env.agents.trajectories import Row

OUTCOMES = {
    "correct": "green",
    "optimization_failure": "yellow",
    "correctness_failure": "red",
    "format_error": "magenta",
    "fault": "bold red",
}
"""Their colours."""
LANGUAGES = {"bash": "bash", "python": "python"}
"""Of the arguments of tools."""
MOST_COLOURED = 50_000
"""Characters of code that are shown in colours: these take a while."""
_OPENING = re.compile(r"<tool_call>|<tool_response>|^(`{3,}+)(\w*+)[^\n]*+\n", re.MULTILINE)
_CLOSING_FENCE = re.compile(r"^(`{3,}+)[ \t]*+$", re.MULTILINE)

Part = tuple[str, str, str, str]
"""Kind ("text", "call", "response" or "code"), content, and of code: fence and language."""


def parts(content: str, question: bool = False) -> Iterator[Part]:
    """What a message is made of, in order. What is opened and never closed is text; so are the tags of a
    question, which only explain. Takes time linear in the message."""
    fences: dict[str, list[int]] = defaultdict(list)
    for closing in _CLOSING_FENCE.finditer(content):
        fences[closing[1]].append(closing.start())
    unclosed: set[str] = set()
    position = start = 0
    while opening := _OPENING.search(content, start):
        fence, begin = opening[1] or "", opening.end()
        start = opening.end(1) if fence else begin  # a tag may stand in the line of a fence
        tag = opening[0].replace("<", "</")
        if fence:
            ends = fences[fence]
            index = bisect_left(ends, begin)
            end = ends[index] if index < len(ends) else -1
        else:
            end = -1 if question or tag in unclosed else content.find(tag, begin)
            unclosed.update({tag} if end < 0 else ())
        if end < 0:
            continue
        yield "text", content[position : opening.start()], "", ""
        kind = "code" if fence else opening[0].strip("<>").removeprefix("tool_")
        yield kind, content[begin:end], fence, opening[2] or ""
        position = start = _CLOSING_FENCE.match(content, end).end() if fence else end + len(tag)  # type: ignore[union-attr]
    yield "text", content[position:], "", ""


def show_text(console: Console, text: str, style: str = "") -> None:
    """Text as it is, but without what would steer the terminal."""
    console.print(Text(plain(text).strip("\n"), style=style), soft_wrap=True)


def show_code(console: Console, code: str, language: str) -> None:
    if not language or len(code) > MOST_COLOURED:
        show_text(console, code)
        return
    highlighted = Syntax(plain(code), language, theme="ansi_dark").highlight(plain(code).strip("\n"))
    highlighted.rstrip()
    console.print(highlighted, soft_wrap=True)


def show_output(console: Console, output: str) -> None:
    """What a tool printed: every line begins with a bar."""
    for line in plain(output).strip("\n").split("\n"):
        console.print(Text.assemble(("│ ", "cyan"), (line, "dim")), soft_wrap=True)


def show_content(console: Console, content: str, question: bool = False) -> None:
    """A message. In a question `<tool_call>` is an example, no call."""
    for kind, text, fence, language in parts(content, question):
        if kind == "call":
            _show_call(console, text)
        elif kind == "response":
            show_output(console, text)
        elif kind == "code":
            console.print(Text(f"{fence}{language}", style="dim"))
            show_code(console, text, language)
            console.print(Text(fence, style="dim"))
        elif text.strip():
            show_text(console, text)


def _show_call(console: Console, call: str) -> None:
    """The tool and its argument; as it was written where it cannot be read."""
    try:
        value = json.loads(call)
        name, (argument, *others) = str(value["name"]), list(value["arguments"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        name = ""
    if not name or others or not isinstance(argument, str):
        show_text(console, f"<tool_call>{call}</tool_call>")
        return
    console.print(Text(f"> {plain(name)}", style="bold cyan"))
    show_code(console, argument, LANGUAGES.get(name, "text"))


def show_episode(console: Console, row: "Row", title: str) -> None:
    """A whole episode."""
    console.print(Text(plain(f"=== {title}: problem {row['problem_id']}"), style="bold"), soft_wrap=True)
    turn = 0
    for position, message in enumerate(row["messages"]):
        role, content = message["role"], message["content"]
        if role == "assistant":
            turn += 1
            label, style = f"agent, message {turn}", "bold blue"
            if turn <= len(row["replies"]):
                label += _of_reply(row["replies"][turn - 1])
        else:
            label, style = ("task" if position == 0 else "environment"), "bold yellow"
        console.print()
        console.print(Text(f"--- {label}, {len(content):,} characters", style=style))
        show_content(console, content, question=role != "assistant" and position == 0)
    console.print()
    outcome = Text.assemble("=== ", (row["outcome"], OUTCOMES.get(row["outcome"], "")))
    outcome.append(f", reward {row['reward']:g}")
    info = row["info"]
    told = {"coverage reached": info.get("coverage_reached"), "format error": info.get("format_error")}
    told |= {"messages": turn, "tool calls": info.get("tool_calls"), "isolation": info.get("tier")}
    outcome.append(
        plain("".join(f", {name} {value}" for name, value in told.items() if value not in (None, "")))
    )
    console.print(outcome, soft_wrap=True)


def _of_reply(reply: "Row") -> str:
    tokens = len(reply.get("token_ids", ()))
    return (f", {tokens:,} tokens" if tokens else "") + (", cut by its token budget" if reply["cut"] else "")
