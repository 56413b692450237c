"""`cef show`: one episode or a line for each, and nothing in it that steers the terminal."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cef_env.commands import showing
from cef_env.commands.transcripts import parts, show_content
from cef_env.errors import UserError

ROOT = Path(__file__).parents[2]
CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "echo hi | cat"}}\n</tool_call>'


def row(problem: str, outcome: str = "correct", said: str = "x", heard: str = "task") -> dict[str, Any]:
    messages = [{"role": "user", "content": heard}, {"role": "assistant", "content": said}]
    return {
        "problem_id": problem,
        "sample": 0,
        "outcome": outcome,
        "reward": float(outcome == "correct"),
        "messages": messages,
        "info": {"coverage_reached": 3, "format_error": "", "tier": "rlimits"},
        "replies": [{"cut": False}],
    }


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What the command prints, as into a pipe or, with `colour`, as on a terminal."""

    def shown(file: Path, colour: bool = False, **options: Any) -> str:
        out = StringIO()
        system = "truecolor" if colour else None
        monkeypatch.setattr(showing, "console", Console(file=out, force_terminal=colour, color_system=system))
        showing.show(file, **{"index": None, "problem": None, "outcome": None} | options)
        return out.getvalue()

    return shown


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_many_episodes_are_a_line_each(tmp_path: Path, show: Callable[..., str]) -> None:
    path = write(tmp_path / "t.jsonl", row("a"), row("b" * 120, "format_error"), row("c", "correct"))
    out = show(path)
    lines = out.splitlines()
    assert len(lines) == 4
    assert lines[2].split() == ["1", "format_error", "0", "1", "5", "b" * 120]
    assert "\x1b" not in out
    assert show(path, outcome="correct").count("correct") == 2
    assert "\x1b[" in show(path, colour=True)


def test_one_episode_is_shown_in_full(tmp_path: Path, show: Callable[..., str]) -> None:
    said = f"Let me see.\n{CALL}\nand\n```python\nprint(1)\n```\n"
    episode = row("p", said=said)
    episode["messages"].append(
        {"role": "user", "content": "<tool_response>\nhi\nthere\n</tool_response>\nLeft: 1"}
    )
    path = write(tmp_path / "t.jsonl", episode)
    for options in ({}, {"index": 0}, {"problem": "p"}, {"outcome": "correct"}):
        out = show(path, **options)
        assert out.splitlines()[0] == "=== episode 0: problem p"
        assert "--- task, 4 characters\ntask\n" in out
        assert "Let me see.\n> bash\necho hi | cat\nand\n```python\nprint(1)\n```\n" in out
        assert "--- environment" in out
        assert "│ hi\n│ there\nLeft: 1\n" in out
        assert "=== correct, reward 1, coverage reached 3, messages 1, isolation rlimits" in out
    coloured = show(path, colour=True)
    assert "\x1b[" in coloured
    assert "print(1)" not in coloured  # in pieces, each with its colour


def test_what_programs_print_cannot_steer_the_terminal(tmp_path: Path, show: Callable[..., str]) -> None:
    evil = "\x1b[2J\x1b]0;title\x07\r\u202e[bold]no markup[/]\x9b1m"
    episode = row(
        f"p{evil}", said=f"{evil}\n```python\n{evil}\n```\n<tool_call>{evil}</tool_call>", heard=evil
    )
    episode["messages"].append({"role": "user", "content": f"<tool_response>{evil}</tool_response>"})
    path = write(tmp_path / "t.jsonl", episode, row(f"q{evil}"))
    for out in (show(path), show(path, index=0)):
        assert not set(out) & {"\x1b", "\x07", "\r", "\u202e", "\x9b"}
        assert "\\x1b[2J" in out
        assert "[bold]no markup[/]" in out


def test_what_is_told_of_an_episode_cannot_steer_the_terminal(
    tmp_path: Path, show: Callable[..., str]
) -> None:
    evil = "\x1b[2J\x07\x9b1m"
    episode = row("p") | {"info": {"tier": evil, "format_error": evil, "coverage_reached": evil}}
    out = show(write(tmp_path / "t.jsonl", episode))
    assert not set(out) & {"\x1b", "\x07", "\x9b"}
    assert out.count("\\x1b[2J") == 3
    with pytest.raises(UserError, match=r"line 1: .*outcome"):
        show(write(tmp_path / "u.jsonl", row("p", evil)))


@given(
    st.lists(
        st.sampled_from(
            [
                "<tool_call>",
                "</tool_call>",
                "<tool_response>",
                "</tool_response>",
                "```",
                "````",
                "```py",
                "x",
            ]
            + ["\n"] * 4
        )
    ).map("".join),
    st.booleans(),
)
def test_the_parts_of_a_message_are_what_a_pattern_finds(text: str, question: bool) -> None:
    fence = r"^(?P<fence>`{3,}+)(?P<language>\w*)[^\n]*\n(?P<code>(?s:.*?))^(?P=fence)[ \t]*$"
    tags = r"<tool_call>(?s:(?P<call>.*?))</tool_call>|<tool_response>(?s:(?P<response>.*?))</tool_response>|"
    expected: list[tuple[str, str]] = []
    position = 0
    for found in re.finditer(fence if question else tags + fence, text, re.MULTILINE):
        kind = next(k for k in ("call", "response", "code") if found.groupdict().get(k) is not None)
        expected += [("text", text[position : found.start()]), (kind, found[kind])]
        position = found.end()
    expected.append(("text", text[position:]))
    assert [(kind, content) for kind, content, _, _ in parts(text, question)] == expected


@pytest.mark.parametrize(
    "unit", ["<tool_call>", "<tool_response>\n", "```a\n", "`", "```python\nx = (1 +\n", "x"]
)
def test_what_a_model_repeats_is_shown_in_linear_time(unit: str) -> None:
    started = time.process_time()
    show_content(Console(file=StringIO()), unit * (300_000 // len(unit)))
    assert time.process_time() - started < 15


def test_a_folder_shows_its_faults_after_its_trajectories(tmp_path: Path, show: Callable[..., str]) -> None:
    write(tmp_path / "trajectories.jsonl", row("a"))
    fault = {"problem_id": "b", "sample": 0, "index": 1, "reason": "died", "attempts": 2, "timed_out": False}
    write(tmp_path / "faults.jsonl", fault)
    assert "1  fault                 died, 2 tries: b" in show(tmp_path)
    assert "died, 2 tries: b" in show(tmp_path, outcome="fault")


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("t.jsonl", {"index": 7}, "no such episode"),
        ("t.jsonl", {"problem": "z"}, "no such episode"),
        ("t.jsonl", {"outcome": "good"}, "--outcome good: use correct"),
        ("missing.jsonl", {}, "does not exist"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, show: Callable[..., str], name: str, options: dict[str, Any], named: str
) -> None:
    write(tmp_path / "t.jsonl", row("a"))
    with pytest.raises(UserError, match=named) as caught:
        show(tmp_path / name, **options)
    assert "\n" not in str(caught.value)


def test_a_pipe_gets_no_colours(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", row("a"))
    command = [sys.executable, "-m", "cef_env.cli", "show", str(path)]
    clean = {k: v for k, v in os.environ.items() if k != "FORCE_COLOR"} | {"TERM": "xterm-256color"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=clean, check=True)
    assert "=== correct, reward 1" in done.stdout
    assert "\x1b" not in done.stdout
