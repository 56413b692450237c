"""What the commands share: where they print, and options that mean the same everywhere."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

console = Console()
errors = Console(stderr=True)

Out = Annotated[Path, typer.Option(help="Directory to write.")]
Preset = Annotated[str, typer.Option(help="laptop, smoke, or a YAML file.")]
Sandbox = Annotated[str, typer.Option(help="auto, or the name of an isolation tier.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int | None, typer.Option(help="Replaces the preset's seed.")]


def plain(text: str) -> str:
    """Text of a source without characters that would steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def print_json(value: Any) -> None:
    """One JSON document on stdout, for programs: no colours, no wrapping."""
    typer.echo(json.dumps(value, indent=2))
