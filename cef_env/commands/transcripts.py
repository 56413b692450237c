"""How conversations look in a terminal: who speaks, code in colour, tools and what they print set apart.

What a tool printed begins with a bar, so that it can be told without colours. Control characters of what
models and programs wrote are escaped. Does not read files: see `showing.py`.
"""

import json
import re

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from cef_env.agents.trajectories import Row
from cef_env.commands.console import plain

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
_FENCE = r"^(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=fence)[ \t]*$"
_PARTS = re.compile(
    rf"<tool_call>(?P<call>.*?)</tool_call>|<tool_response>(?P<response>.*?)</tool_response>|{_FENCE}",
    re.DOTALL | re.MULTILINE,
)
_ONLY_CODE = re.compile(_FENCE, re.DOTALL | re.MULTILINE)


def show_text(console: Console, text: str, style: str = "") -> None:
    """Text as it is, but without what would steer the terminal."""
    console.print(Text(plain(text).strip("\n"), style=style), soft_wrap=True)


def show_code(console: Console, code: str, language: str) -> None:
    highlighted = Syntax(plain(code), language or "text", theme="ansi_dark").highlight(
        plain(code).strip("\n")
    )
    highlighted.rstrip()
    console.print(highlighted, soft_wrap=True)


def show_output(console: Console, output: str) -> None:
    """What a tool printed: every line begins with a bar."""
    for line in plain(output).strip("\n").split("\n"):
        console.print(Text.assemble(("│ ", "cyan"), (line, "dim")), soft_wrap=True)


def show_content(console: Console, content: str, question: bool = False) -> None:
    """A message. In a question `<tool_call>` is an example, no call."""
    position = 0
    for part in (_ONLY_CODE if question else _PARTS).finditer(content):
        if content[position : part.start()].strip():
            show_text(console, content[position : part.start()])
        position = part.end()
        found = part.groupdict()
        if found.get("call") is not None:
            _show_call(console, found["call"])
        elif found.get("response") is not None:
            show_output(console, found["response"])
        else:
            console.print(Text(f"{found['fence']}{found['language']}", style="dim"))
            show_code(console, found["code"], found["language"])
            console.print(Text(found["fence"], style="dim"))
    if content[position:].strip():
        show_text(console, content[position:])


def _show_call(console: Console, call: str) -> None:
    """The tool and its argument; as it was written where it cannot be read."""
    try:
        value = json.loads(call)
        name, (argument, *others) = str(value["name"]), list(value["arguments"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        name = ""
    if not name or others or not isinstance(argument, str):
        show_text(console, f"<tool_call>{call}</tool_call>")
        return
    console.print(Text(f"> {plain(name)}", style="bold cyan"))
    show_code(console, argument, LANGUAGES.get(name, "text"))


def show_episode(console: Console, row: Row, title: str) -> None:
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
    outcome.append("".join(f", {name} {value}" for name, value in told.items() if value not in (None, "")))
    console.print(outcome, soft_wrap=True)


def _of_reply(reply: Row) -> str:
    tokens = len(reply.get("token_ids", ()))
    return (f", {tokens:,} tokens" if tokens else "") + (", cut by its token budget" if reply["cut"] else "")
