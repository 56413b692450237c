"""A Python interpreter for agents, isolated as judged programs are: code in, what it printed out.

    with PythonTool(resolve()) as tool:
        tool.run("print(6 * 7)").output

With `state="call"` every call is a fresh interpreter, with `state="episode"` variables, imports and files
survive until `reset()`. Nothing starts before the first call. One object is for one thread at a time; many
tools run at once. Judges nothing.
"""

import contextlib
import fcntl
import os
import secrets
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from cef_env.errors import UserError
from cef_env.sandbox.box import Box
from cef_env.sandbox.tiers import Plan
from cef_env.sandbox.transcript import shorten
from cef_env.sandbox.types import BoxError, Execution, Limits, Stop

LIMITS = Limits(cpu_s=5.0, memory_bytes=256 << 20, output_bytes=4 << 20)
KEY_BYTES = 16
"""As in `inside/interpreter.py`."""
LIFE_CPU_S = 100_000.0
"""Of an interpreter that serves many calls; each call has its own limit."""
END_TIMEOUT_S = 10.0
_INTERPRETER = Path(__file__).with_name("inside") / "interpreter.py"

Stopped = Literal["", "time", "memory", "output", "idle"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one call did."""

    output: str
    """stdout and stderr in the order written, without control characters, cut in the middle when long; then a
    line in brackets when the call was stopped."""
    failed: bool
    """An uncaught exception, a non-zero exit status, or stopped."""
    stopped: Stopped
    """The limit that ended it: `time` is CPU time, `idle` wall time."""
    cut: int
    """Characters left out of the middle."""


class PythonTool:
    """A tool of one kind of state. Raises `UserError` for an unknown kind.

    `run` raises `BoxError` for an instrument fault: nothing is known about the code; a next call starts anew.
    """

    def __init__(
        self,
        plan: Plan,
        state: Literal["call", "episode"] = "call",
        limits: Limits = LIMITS,
        output_characters: int = 10_000,
    ) -> None:
        if state not in ("call", "episode"):
            raise UserError(f"tool_state={state!r}: use call or episode")
        self.plan = plan
        self.state = state
        self.limits = limits
        self.output_characters = output_characters
        self._box: Box | None = None
        self._interpreter: _Interpreter | None = None

    def run(self, code: str) -> ToolResult:
        """Execute code as a program of its own (`call`), or as the continuation of the last (`episode`)."""
        try:
            source = code.encode()
        except UnicodeEncodeError as error:
            return ToolResult(f"SyntaxError: the code is not valid Unicode: {error.reason}", True, "", 0)
        try:
            return self._run_alone(source) if self.state == "call" else self._continue(source)
        except BoxError:
            self.close()
            raise

    def _run_alone(self, source: bytes) -> ToolResult:
        execution = self._ready(self.limits).run(b"", files={"main.py": source}, merge=True)
        note = _death(execution.status)
        stopped = _stopped(execution)
        if stopped:
            note = self._reason(stopped)
        return self._result(execution.stdout, execution.status != 0, stopped, note)

    def _continue(self, source: bytes) -> ToolResult:
        if self._interpreter is not None and self._box is not None and not self._box.alive:
            raise BoxError("the box of the interpreter is gone, and its variables with it")
        if self._interpreter is None:
            box = self._ready(Limits(LIFE_CPU_S, self.limits.memory_bytes, self.limits.output_bytes))
            self._interpreter = _Interpreter(box, self.limits.cpu_s)
        elif self._box is not None:
            self._box.forget_memory()
        failed = self._interpreter.execute(source, self.limits.wall_s)
        output, exceeded = self._interpreter.printed(self.limits.output_bytes)
        if failed is not None and not exceeded:
            return self._result(output, failed, "", "")
        busy = self._interpreter.busy
        status, out_of_memory = self._end_interpreter()
        stopped: Stopped = ""
        if out_of_memory:
            stopped = "memory"
        elif exceeded:
            stopped = "output"
        elif busy:
            stopped = "idle"
        elif status == -signal.SIGPROF:
            stopped = "time"
        note = self._reason(stopped) if stopped else _death(status) or "the interpreter ended"
        return self._result(output, True, stopped, f"{note}; its variables are lost")

    def _result(self, output: bytes, failed: bool, stopped: Stopped, note: str) -> ToolResult:
        text, cut = shorten(output, self.output_characters)
        if note:
            text += f"{'' if text.endswith(chr(10)) or not text else chr(10)}[{note}]\n"
        return ToolResult(text, failed or bool(stopped), stopped, cut)

    def _reason(self, stopped: Stopped) -> str:
        limits = self.limits
        return (
            "stopped: more than "
            + {
                "time": f"{limits.cpu_s:g} s of CPU time",
                "idle": f"{limits.wall_s:g} s without an end",
                "memory": f"{limits.memory_bytes >> 20} MiB of memory",
                "output": f"{limits.output_bytes >> 10} KiB of output",
            }[stopped]
        )

    def _ready(self, limits: Limits) -> Box:
        """The box with its interpreter's program, started when there is none."""
        if self._box is not None and not self._box.alive:
            self.close()
        if self._box is None:
            box = Box(self.plan)
            self._box = box
            error = box.load(_INTERPRETER.read_text(), limits)
            if error:
                raise BoxError(f"the interpreter's program does not compile: {error}")
        return self._box

    def _end_interpreter(self) -> tuple[int, bool]:
        """End what keeps the variables; its status, and whether memory ran out, if it ended by itself."""
        interpreter, self._interpreter = self._interpreter, None
        if interpreter is None or self._box is None:
            return 0, False
        interpreter.close()
        if interpreter.busy:
            self.close()  # it does not look at its socket: only the end of its box ends it
            return 0, False
        return self._box.end(END_TIMEOUT_S)

    def reset(self) -> None:
        """Forget all variables and files. The next call starts with none."""
        if self._interpreter is not None:
            try:
                self._end_interpreter()
            except BoxError:
                self.close()  # and the variables are forgotten all the same

    def close(self) -> None:
        """End the tool; a later call would start it again. Idempotent."""
        interpreter, self._interpreter = self._interpreter, None
        if interpreter is not None:
            interpreter.close()
        box, self._box = self._box, None
        if box is not None:
            box.close()

    def __enter__(self) -> "PythonTool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Interpreter:
    """The running program of a box that executes piece after piece; see `inside/interpreter.py`."""

    def __init__(self, box: Box, cpu_s: float) -> None:
        self.busy = False
        """Whether it is executing something."""
        self._output = os.memfd_create("output", os.MFD_CLOEXEC)
        # Appending, so that after each call the file can be emptied under the writer.
        fcntl.fcntl(self._output, fcntl.F_SETFL, os.O_APPEND)
        self._channel, theirs = socket.socketpair()
        with theirs:
            try:
                box.begin(theirs.fileno(), self._output, [str(cpu_s)])
            except BaseException:
                self.close()
                raise

    def execute(self, source: bytes, timeout_s: float) -> bool | None:
        """Whether the code failed; None when it did not come to its end."""
        key, self.busy = secrets.token_bytes(KEY_BYTES), True
        answer, deadline = b"", time.monotonic() + timeout_s
        try:
            self._channel.settimeout(timeout_s)
            self._channel.sendall(len(source).to_bytes(8, "little") + key + source)
            while True:
                self._channel.settimeout(max(0.001, deadline - time.monotonic()))
                data = self._channel.recv(1 << 12)
                if not data:
                    self.busy = False
                    return None
                # What the agent's code wrote there before does not hold the key.
                answer = (answer + data)[-(1 << 12) :]
                _, found, rest = answer.partition(key)
                if found and rest:
                    self.busy = False
                    return rest[0] != 0
        except TimeoutError:
            return None
        except OSError:
            self.busy = False
            return None

    def printed(self, most: int) -> tuple[bytes, bool]:
        """What was printed since the last time, at most `most` bytes, and whether it was more."""
        size = os.fstat(self._output).st_size
        data = os.pread(self._output, min(size, most), 0)
        os.ftruncate(self._output, 0)
        return data, size > most

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._output)
        self._channel.close()


def _stopped(execution: Execution) -> Stopped:
    if execution.out_of_memory:
        return "memory"
    if execution.stop is not Stop.NONE:
        return "time" if execution.stop is Stop.CPU else "idle"
    return "output" if execution.output_exceeded else ""


def _death(status: int) -> str:
    return f"the interpreter was ended by {signal.Signals(-status).name}" if status < 0 else ""
