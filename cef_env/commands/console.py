"""What the commands share: where they print, and options that mean the same everywhere."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cef_env.errors import UserError

console = Console()
errors = Console(stderr=True)

Out = Annotated[Path, typer.Option(help="Directory to write.")]
Preset = Annotated[
    str,
    typer.Option(
        help="laptop, smoke, shaping_discrete, shaping_continuous, repair, gpu, a YAML file, or for "
        "reproduce the study full."
    ),
]
Setting = Annotated[str | None, typer.Option(help="reasoning, tool_use or agentic; by default the preset's.")]
Sandbox = Annotated[str, typer.Option(help="auto, or the name of an isolation tier.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
EnvOption = Annotated[
    list[str], typer.Option("--env-option", metavar="NAME=VALUE", help="Argument of the environment.")
]
Seed = Annotated[int | None, typer.Option(help="Replaces the preset's seed.")]


def plain(text: str) -> str:
    """Text of a source without characters that would steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def parse_options(options: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` as written on a command line; a value that is no JSON is text."""
    parsed = {}
    for option in options:
        name, sign, value = option.partition("=")
        if not sign or not name.isidentifier():
            raise UserError(f"option {option!r}: write NAME=VALUE, as in max_turns=6")
        try:
            parsed[name] = json.loads(value)
        except ValueError:
            parsed[name] = value
    return parsed


def print_json(value: Any) -> None:
    """One JSON document on stdout, for programs: no colours, no wrapping."""
    typer.echo(json.dumps(value, indent=2))
