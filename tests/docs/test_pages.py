"""Every code block of README.md and docs/ runs as it stands, or is checked as far as this machine can.

No plugin does this: a page needs a process and a folder of its own, shell commands between its Python, and
what they print compared. pytest-examples runs Python alone; Sybil and mktestdocs run in the tests' process.
"""

import ast
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
import yaml

from cef_env.cli import app
from tests.docs.blocks import PAGES, ROOT, Block, blocks
from tests.merge.checkpoints import make_model

CEF = typer.main.get_command(app)
SCRIPTS = {"cef": "-m cef_env.cli", "python": ""}
"""What these commands are for a page: those of this checkout, whatever else is installed."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


ALL = [block for page in PAGES for block in blocks(page)]
CODE = ("python", "bash")
RUNNING = [page for page in PAGES if any(b.language in CODE and not b.needs for b in blocks(page))]
CHECKPOINTS = {"docs/merging.md": ("low", "middle", "high")}
"""Pages that begin with trained models: those folders hold a tiny one each."""


def environment(folder: Path) -> dict[str, str]:
    """With `cef` and `python` of this checkout, and a home of its own."""
    bin_ = folder / ".bin"
    bin_.mkdir()
    for script, arguments in SCRIPTS.items():
        (bin_ / script).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        (bin_ / script).chmod(0o755)
    return os.environ | {
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "COLUMNS": "110",
    }


@pytest.mark.parametrize("page", RUNNING, ids=name)
def test_the_blocks_of_the_page_run_and_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    for seed, folder in enumerate(CHECKPOINTS.get(name(page), ())):
        make_model(seed).save_pretrained(tmp_path / folder)
    jobs: list[dict[str, object]] = []
    previous: Block | None = None
    for block in blocks(page):
        if block.language == "text" and previous is not None and not block.measured and not previous.needs:
            jobs[-1]["output"] = block.text
        if (block.language in CODE and not block.needs) or block.title:
            jobs.append(
                {
                    "place": block.place, "page": block.page, "line": block.line, "language": block.language,
                    "title": block.title, "output": None,
                    "text": block.tested.replace("FOLDER", str(tmp_path)),
                }
            )  # fmt: skip
        previous = block if block.language in CODE and not block.title else None
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "docs" / "run_page.py")],
        input=json.dumps(jobs), capture_output=True, text=True, cwd=tmp_path, env=environment(tmp_path),
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", [b for b in ALL if b.needs], ids=lambda block: block.place)
def test_a_block_that_is_not_run_is_right_as_far_as_it_can_be_read(block: Block) -> None:
    if block.language == "python":
        for node in ast.walk(ast.parse(block.text, block.place)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cef_env"):
                try:
                    module = importlib.import_module(node.module or "")
                except ImportError as error:
                    if (error.name or "cef_env").startswith("cef_env"):
                        raise
                    continue  # what the block needs
                for alias in node.names:
                    known = hasattr(module, alias.name) or find_spec(f"{node.module}.{alias.name}")
                    assert known, f"{block.place}: {node.module} has no {alias.name}"
    if block.language == "bash":
        done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{block.place}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_of_the_page_exists_with_its_options(page: Path) -> None:
    for block in blocks(page):
        if block.language in ("bash", ""):
            for words in commands(block.text):
                refused = refusal(words)
                assert refused is None, f"{block.place}: cef {shlex.join(words)}: {refused}"


def commands(text: str) -> list[list[str]]:
    """The words behind each `cef` that begins a line of a shell text."""
    found = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if re.match(r"\s*cef ", line):
            lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
            lexer.whitespace_split = True
            words = list(lexer)[1:]
            stop = next((i for i, word in enumerate(words) if set(word) <= set("&|;<>")), len(words))
            found.append(words[:stop])
    return found


def refusal(words: list[str]) -> str | None:
    """Why `cef WORDS` is refused before it does anything; None when it is not."""
    command = CEF
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]  # type: ignore[attr-defined]
    if getattr(command, "commands", {}) and words and not words[0].startswith("-"):
        return f"No such command: {words[0]}"
    try:
        command.make_context("cef", list(words))
    except Exception as error:  # noqa: BLE001 - typer has one class for it only in some versions
        return f"{type(error).__name__}: {error}"
    return None


def test_the_check_of_commands_sees_what_does_not_exist() -> None:
    assert refusal(["merge", "a", "b", "--alpha", "-0.5:1.5:0.25", "--out", "c"]) is None
    assert "No such option: --alphas" in str(refusal(["merge", "a", "b", "--alphas", "1", "--out", "c"]))
    assert "No such command" in str(refusal(["mend", "a"]))
    assert "Missing parameter: coverage" in str(refusal(["train", "rl", "a", "--out", "c"]))


@pytest.mark.parametrize("block", [b for b in ALL if b.language == "yaml"], ids=lambda block: block.place)
def test_a_configuration_can_be_read(block: Block) -> None:
    assert yaml.safe_load(block.text)


def test_what_covers_a_block_that_is_not_run_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for block in ALL:
        if not block.needs:
            continue
        covered = re.fullmatch(r"[\w ,-]+ \((make [\w-]+|tests/[\w./-]+)\)", block.needs)
        assert covered is not None, f"{block.place}: write `needs: what (make target or tests/path)`"
        target = covered[1]
        if target.startswith("make "):
            assert f"\n{target.removeprefix('make ')}:" in makefile, f"{block.place}: {target}"
        else:
            assert (ROOT / target).exists(), f"{block.place}: {target}"
