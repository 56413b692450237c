"""A person at the keyboard (or a pipe) as the agent: what is typed becomes the messages of the setting.

Lines are edited with readline of the standard library: completion of commands and file names and a history,
without another dependency. From a pipe the same lines are read, without prompts. Does not step environments:
see `playing.py`.
"""

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path

from rich.console import Console

from cef_env.agents.debugger import write_file
from cef_env.commands.console import plain
from cef_env.envs import AgenticEnv, ToolUseEnv
from cef_env.envs.agentic import working_folder
from cef_env.envs.base import CodingEnv
from cef_env.envs.prompts import question
from cef_env.envs.text import extract_program, fenced
from cef_env.envs.tools import call_text
from cef_env.files import cache_folder

try:
    import readline
except ImportError:  # a Python built without it: lines can be typed all the same
    readline = None  # type: ignore[assignment]

_HEREDOC = re.compile(r"(?<!<)<<(?!<)(-?)\s*\\?(['\"]?)(\w+)\2")
_FILES = re.compile(r"[\w./-]+\.(?:py|cpp|cc|cxx)\b")


class Leave(Exception):  # noqa: N818 - an event, not an error
    """The person has had enough."""


class Person:
    """Asks for one message after the other; `Leave` at `quit` and at the end of the input.

    Args:
        env: the environment that is played, after its reset.
        console: where help and complaints are printed.
    """

    def __init__(self, env: CodingEnv, console: Console) -> None:
        problem = env.problem
        assert problem is not None
        self._console = console
        self._env = env
        self._tty = sys.stdin.isatty()
        self._seen: set[str] = set()
        """Names of programs in the terminal, as far as commands named them."""
        self._commands: dict[str, tuple[str, str, Callable[[str], str | None]]] = {
            "help": ("", "these lines", lambda _: self._help()),
            "statement": ("", "the problem again", lambda _: self._statement()),
            "quit": ("", "end without an answer (so does ctrl-D)", self._quit),
        }
        """By name: argument, meaning, and what it does (the message to send, or None)."""
        if isinstance(env, AgenticEnv):
            self._prompt, self._rest = "$ ", self._shell
            self._intro = (
                "Type commands for the sandboxed shell, and hand a file of it in with `submit`.\n"
                f"It starts with {', '.join(working_folder(problem))}. A command has "
                f"{env.command_time_s:g} s; you have {env.max_turns} messages."
            )
            self._commands |= {
                "submit": ("PATH", "hand in a file of the sandbox", self._submit),
                "put": ("FILE", "copy a file of yours into the sandbox; costs a message", self._put),
            }
        elif isinstance(env, ToolUseEnv):
            self._prompt, self._rest = "python> ", self._run_typed
            self._intro = (
                "Type Python code to run it in the sandbox; a line with a single . ends it.\n"
                f"You have {env.max_turns} messages, the answer included."
            )
            self._commands |= {
                "run": ("FILE", "run the code of a file", lambda path: self._from_file(path, self._run)),
                "answer": ("[FILE]", "answer with a program: of a file, or typed", self._answer),
            }
        else:
            self._prompt, self._rest = "program> ", lambda line: fence(self._block(line))
            self._intro = "Type your program; a line with a single . (or ctrl-D) ends and judges it."
            self._commands["file"] = (
                "FILE",
                "answer with the program of a file",
                lambda path: self._from_file(path, fence),
            )

    def introduce(self) -> None:
        """The task and how to work on it."""
        tools = isinstance(self._env, AgenticEnv | ToolUseEnv)
        if tools:
            self._statement()
        self._console.print()
        if self._tty:
            self._help()

    def ask(self) -> str:
        """The next message."""
        while True:
            line = self._line(self._prompt)
            name, _, argument = line.partition(" ")
            if not line.strip():
                continue
            message = (
                self._commands[name][2](argument.strip()) if self._is_command(line) else self._rest(line)
            )
            if message is not None:
                return message

    def _is_command(self, line: str) -> bool:
        """Whether a line is a command of ours: programs and shells may begin with the same words."""
        name, _, argument = line.strip().partition(" ")
        if name not in self._commands or line[0].isspace():
            return False
        wanted = self._commands[name][0]
        return bool(argument.strip()) <= bool(wanted) and (" " not in argument.strip() or name == "put")

    def _line(self, prompt: str) -> str:
        """One line, without its end; `Leave` when there is none."""
        if self._tty:
            try:
                return input(prompt)
            except EOFError:
                self._console.print()
                raise Leave from None
        line = sys.stdin.readline()
        if not line:
            raise Leave
        return line.removesuffix("\n")

    def _block(self, *lines: str) -> str:
        """Lines up to one that is a single full stop, or to the end of the input."""
        block = list(lines)
        with contextlib.suppress(Leave):
            while (line := self._line("... ")) != ".":
                block.append(line)
        return "\n".join(block)

    def _help(self) -> None:
        self._say(self._intro)
        for name, (argument, meaning, _) in self._commands.items():
            self._say(f"  {name + ' ' + argument:<15}{meaning}")

    def _statement(self) -> None:
        assert self._env.problem is not None
        self._say(question(self._env.problem))

    def _say(self, text: str) -> None:
        self._console.print(plain(text), markup=False, highlight=False, soft_wrap=True)

    def _quit(self, _: str) -> None:
        raise Leave

    def _from_file(self, path: str, message: Callable[[str], str]) -> str | None:
        try:
            return message(Path(path or "?").expanduser().read_text())
        except (OSError, UnicodeDecodeError) as error:
            self._say(f"{path or 'no file was named'}: {getattr(error, 'strerror', None) or error}")
            return None

    def _run(self, code: str) -> str:
        return call_text("python", "code", code)

    def _run_typed(self, line: str) -> str:
        return self._run("" if line == "." else self._block(line))

    def _answer(self, path: str) -> str | None:
        if path:
            return self._from_file(path, fence)
        self._say("Type the program; a line with a single . ends and judges it.")
        program = self._block()
        return fence(program) if program.strip() else None

    def _submit(self, path: str) -> str | None:
        if path:
            return call_text("submit", "path", path)
        self._say("submit PATH: which file?")
        return None

    def _put(self, path: str) -> str | None:
        name = Path(path).name
        self._seen.add(name)
        return self._from_file(
            path, lambda text: call_text("bash", "command", write_file(shlex.quote(name), text))
        )

    def _shell(self, line: str) -> str:
        """A command, with the lines that it goes on with."""
        lines = [line]
        with contextlib.suppress(Leave):
            while unfinished("\n".join(lines)):
                lines.append(self._line("> "))
        self._seen.update(_FILES.findall(lines[0]))
        return call_text("bash", "command", "\n".join(lines))

    @contextlib.contextmanager
    def editing(self) -> Iterator[None]:
        """Completion, and a history that is kept, while the person types."""
        if readline is None or not self._tty:
            yield
            return
        history = cache_folder("play") / "history"
        with contextlib.suppress(OSError):
            readline.read_history_file(history)
        readline.set_completer_delims(" \t")
        readline.set_completer(self._complete)
        readline.parse_and_bind("tab: complete")
        readline.set_history_length(1000)
        try:
            yield
        finally:
            readline.set_completer(None)
            with contextlib.suppress(OSError):
                history.parent.mkdir(parents=True, exist_ok=True)
                readline.write_history_file(history)

    def _complete(self, text: str, state: int) -> str | None:
        """For readline: the `state`-th way to complete `text`."""
        words = readline.get_line_buffer()[: readline.get_begidx()].split()
        if not words:
            found = [f"{name} " for name in sorted(self._commands) if name.startswith(text)]
        elif words[0] == "submit":
            found = sorted(name for name in self._seen if name.startswith(text))
        else:
            home = os.path.expanduser(text)
            found = sorted(path + ("/" if os.path.isdir(path) else "") for path in glob(f"{home}*"))
        return found[state] if state < len(found) else None


def fence(text: str) -> str:
    """An answer: the text itself if it holds a fenced program, else the text as a program."""
    return text if extract_program(text) is not None else fenced(text)


def unfinished(command: str) -> bool:
    """Whether a shell would ask for more lines: an open quote, here-document, or a backslash at the end."""
    lines = command.split("\n")
    position = 0
    while position < len(lines):
        for dash, _, mark in _HEREDOC.findall(lines[position]):
            ends = [
                i
                for i, text in enumerate(lines)
                if i > position and mark == (text.lstrip("\t") if dash else text)
            ]
            if not ends:
                return True
            del lines[position + 1 : ends[0] + 1]
        position += 1
    rest = "\n".join(lines)
    if rest.endswith("\\") and not rest.endswith("\\\\"):
        return True
    try:
        shlex.split(rest, comments=True)
    except ValueError:
        return True
    return False
