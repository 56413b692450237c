"""An agent written as a function over a terminal, for `cef/Agentic-v0`.

    def solve(statement, terminal):
        terminal.run("cat > main.py << 'END'\n...\nEND")
        if "5" in terminal.run("python3 main.py < samples/1.in"):
            return "main.py"                    # or terminal.submit("main.py"), which does not return

    cef rollout --env cef/Agentic-v0 --agent my_module:solve ...

The function runs in a thread of its own, one for each conversation, and waits in `terminal.run` while the
environment runs the command as a tool call of the agent's next message. Runs no command itself.
"""

import queue
import re
import threading
import traceback
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from cef_env.agents.base import Message, Reply
from cef_env.envs.agentic import AgenticEnv
from cef_env.envs.tools import call_text, tools_text
from cef_env.errors import UserError

Solve = Callable[[str, "TerminalHandle"], str | None]

GAVE_UP = "I have nothing to hand in."
"""What the agent says when its function is over but the episode is not: the function returned None, or what
it handed in was refused. The episode then runs out of turns."""

_RESPONSE = re.compile(r"<tool_response>\n(.*)\n</tool_response>\nMessages left: (\d+)\n", re.DOTALL)
_SUBMITTED = call_text("submit", "path", "").partition('""')[0]
_SHOWN = re.compile(r"(?:(.*)\n)?\[exit status (\d+)\]", re.DOTALL)
_FIRST = re.compile(r"You have (\d+) messages")


class EpisodeOver(BaseException):
    """Unwinds a function whose episode is over. Not an `Exception`, so that no function handles it by
    accident; `finally` clauses run."""


@dataclass(frozen=True, slots=True)
class _Submit:
    path: str


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


class Output(str):
    """What a command printed, as the environment shows it: without white space at its end, and long output
    with a gap. A command that was stopped, or that ended the shell, has a line that says so."""

    exit_status: int | None = None
    """None for a command that was stopped or ended the shell."""

    @classmethod
    def of(cls, shown: str) -> "Output":
        """From the response to a `bash` call, whose last line is the exit status."""
        match = _SHOWN.fullmatch(shown)
        if match is None:
            return cls(shown)
        output = cls(match[1] or "")
        output.exit_status = int(match[2])
        return output


class TerminalHandle:
    """What the function works with."""

    def __init__(self, run: "_Run") -> None:
        self._run = run

    def run(self, command: str) -> Output:
        """What a command printed, a str, and its `exit_status`. It is one message of the episode."""
        if not isinstance(command, str):
            raise TypeError(f"a command is a str, not {type(command).__name__}")
        return Output.of(self._run.ask(command))

    def submit(self, path: str) -> NoReturn:
        """Hand in the file at `path` and end the function; the same as returning the path."""
        if not isinstance(path, str):
            raise TypeError(f"a path is a str, not {type(path).__name__}")
        self._run.submitted = path
        raise EpisodeOver


class _Run:
    """One run of the function. Does not know the agent, so that an agent that is dropped can be collected."""

    def __init__(self, solve: Solve, statement: str, idle_s: float) -> None:
        self.submitted: str | None = None
        self.over = False
        """The function has ended, or has been told to."""
        self._solve = solve
        self._idle_s = idle_s
        self._asked: queue.SimpleQueue[str | _Submit | _Failed | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, args=(statement,), name="solve", daemon=True)
        self.thread.start()

    def _work(self, statement: str) -> None:
        try:
            returned = self._solve(statement, TerminalHandle(self))
            if returned is not None and not isinstance(returned, str):
                kind = type(returned).__name__
                raise TypeError(f"the function returned {kind}; return the path to hand in, or None")
            last: str | _Submit | _Failed | None = None if returned is None else _Submit(returned)
        except EpisodeOver:
            last = None if self.submitted is None else _Submit(self.submitted)
        except BaseException as error:  # noqa: BLE001 - raised again where the agent was called
            last = _Failed(error)
        self._asked.put(last)

    def ask(self, command: str) -> str:
        """Called by the function: hand a command over and wait for its output."""
        if self.over or self.submitted is not None:
            raise EpisodeOver
        self._asked.put(command)
        try:
            answer = self._answers.get(timeout=self._idle_s)
        except queue.Empty:  # nobody plays this episode any more
            answer = None
        if answer is None:
            self.over = True
            raise EpisodeOver
        return answer

    def answer(self, output: str) -> None:
        self._answers.put(output)

    def next(self) -> str | _Submit | _Failed | None:
        """What the function wants: a command, a file handed in, or nothing more."""
        wanted = self._asked.get()
        self.over = self.over or not isinstance(wanted, str)
        return wanted

    def stop(self) -> None:
        """Make the function end at its next command."""
        self.over = True
        self._answers.put(None)


class TerminalAgent:
    """Lets a function over a terminal play `cef/Agentic-v0`, many episodes at once.

    Args:
        solve: the function. It is given the statement and a `TerminalHandle`, and returns the path to hand
            in, or None when it gives up.
        idle_s: seconds after which a run that nobody continues ends. A run ends at once when its function
            does, with the last message of its episode, and with `close` or the agent itself.

    A run is found again by its conversation; runs with equal conversations have done and seen the same, so
    it does not matter which of them goes on with which. An exception of the function is a `UserError` that
    names its type and line.
    """

    def __init__(self, solve: Solve, idle_s: float = 600.0) -> None:
        self._solve = solve
        self._idle_s = idle_s
        self._waiting: defaultdict[tuple[str, ...], deque[_Run]] = defaultdict(deque)
        self._lock = threading.Lock()
        weakref.finalize(self, _stop_all, self._waiting)

    def act(self, messages: list[Message]) -> str:
        return self.act_batch([messages], 0)[0].text

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        """One reply per conversation. The functions work side by side; `seed` is not theirs to use."""
        turns: list[tuple[_Run | None, int | None]] = []
        try:
            for messages in conversations:
                turns.append(self._resumed(messages))
            texts = [self._text(*turn) for turn in turns]
        except BaseException:
            for run, _ in turns:
                if run is not None:
                    run.stop()
            raise
        with self._lock:
            self._forget_ended()
            for messages, text, (run, _) in zip(conversations, texts, turns):
                if run is not None and not run.over:
                    self._waiting[(*_key(messages), text)].append(run)
        return [Reply(text) for text in texts]

    def _resumed(self, messages: list[Message]) -> tuple[_Run | None, int | None]:
        """The run of a conversation, at work again, and the messages that it has left (None: not known)."""
        last = messages[-1]["content"]
        if all(message["role"] != "assistant" for message in messages):
            statement, left = _read_first(last)
            return _Run(self._solve, statement, self._idle_s), left
        response = _RESPONSE.fullmatch(last)
        with self._lock:
            self._forget_ended()
            runs = self._waiting.get(_key(messages[:-1]))
            run = runs.popleft() if runs else None
        if run is not None:
            run.answer(last if response is None else response[1])
        elif not messages[-2]["content"].startswith((GAVE_UP, _SUBMITTED)):
            raise UserError(
                f"the run of this conversation is over: it waited {self._idle_s:g} s for its next message "
                "or is not of this agent; begin the episode again"
            )
        return run, None if response is None else int(response[2])

    def _forget_ended(self) -> None:
        """Drop the runs that ended of themselves, and keys without runs."""
        for key, runs in list(self._waiting.items()):
            alive = deque(run for run in runs if not run.over)
            if alive:
                self._waiting[key] = alive
            else:
                del self._waiting[key]

    def _text(self, run: _Run | None, left: int | None) -> str:
        """The message that says what a run wants."""
        wanted = None if run is None else run.next()
        if isinstance(wanted, _Failed):
            file = getattr(getattr(self._solve, "__code__", None), "co_filename", None)
            raise UserError(f"the agent's function failed: {describe(wanted.error, file)}") from wanted.error
        if isinstance(wanted, str):
            if left == 1 and run is not None:
                run.stop()
            return call_text("bash", "command", wanted)
        return GAVE_UP if wanted is None else call_text("submit", "path", wanted.path)

    def close(self) -> None:
        """End all runs. Episodes that they played cannot go on."""
        with self._lock:
            _stop_all(self._waiting)


def _stop_all(waiting: defaultdict[tuple[str, ...], deque[_Run]]) -> None:
    for runs in waiting.values():
        for run in runs:
            run.stop()
    waiting.clear()


def _key(messages: Sequence[Message]) -> tuple[str, ...]:
    return tuple(message["content"] for message in messages)


def _read_first(observation: str) -> tuple[str, int | None]:
    """The statement in an episode's first observation, and how many messages it grants."""
    statement, tools, rest = observation.rpartition(f"\n\n{tools_text(AgenticEnv.tools)}")
    if not tools:
        raise UserError("a function over a terminal plays cef/Agentic-v0; this environment shows no terminal")
    granted = _FIRST.search(rest)
    return statement, None if granted is None else int(granted[1])


def describe(error: BaseException, file: str | None = None) -> str:
    """An exception in one line: type, message, and where it was raised: the last line in `file`, if known."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if isinstance(error, SyntaxError):  # says its line itself
        return text
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    frames = [frame for frame in frames if frame.filename == file] or frames
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else text
