"""The program that a Python tool's box runs: it executes the code of an agent as `__main__`.

Runs inside a box as any judged program does, with no more rights (see `python_tool.py`, which sends this
text). Without arguments it runs main.py of its folder once. Else it serves: one piece of code after the other
from the socket that is its stdin, in one namespace; the argument is the CPU time of one piece in seconds.

    host -> here   length (8 bytes), key (16 bytes), code
    here -> host   key (16 bytes), 0 or 1: failed

What answers is the process of the agent's code, so an answer says only that the code, or something in it,
claims to have ended; output, limits and death are seen from outside.
"""

# ruff: noqa: BLE001 - an agent's code may raise anything.

import fcntl
import gc
import io
import linecache
import os
import signal
import sys
import traceback
import types

KEY_BYTES = 16
CHANNEL_FD = 200
FILE = "__fi" + "le__"
"""In two: a box lays the source of a program that contains the name into its folder. Here, that is this."""


def main() -> None:
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = module
    if len(sys.argv) > 1:
        try:
            serve(module, float(sys.argv.pop()))
        except OSError:
            os._exit(0)  # the code has closed our descriptors; the host sees that nothing is left
    sys.stdout, sys.stderr = stream(1), stream(2)
    with open("main.py", "rb") as file:
        source = file.read()
    module.__dict__[FILE] = os.path.abspath("main.py")
    status = run(source, "main.py", module)
    if b"__del__" in source:
        del sys.modules["__main__"], module
        gc.collect()
    sys.exit(status)


def serve(module: types.ModuleType, cpu_s: float) -> None:
    channel, output = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, CHANNEL_FD) for fd in (0, 1))
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    process, number = os.getpid(), 0
    while True:
        header = receive(channel, 8 + KEY_BYTES)
        source = receive(channel, int.from_bytes(header[:8], "little"))
        number += 1
        # New ones, whatever became of the last: a call's output is always seen.
        for fd in (1, 2):
            os.dup2(output, fd)
        sys.stdout, sys.stderr = stream(1), stream(2)
        # The signal ends a process over its CPU time; the code can put it off, then wall time ends it.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        status = run(source, f"<call {number}>", module)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if os.getpid() != process:
            os._exit(status)  # a fork of the agent's that came out at the end of its code
        os.write(channel, header[8:] + bytes([status != 0]))


def receive(channel: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = os.read(channel, min(size - len(data), 1 << 20))
        if not chunk:
            os._exit(0)  # the host has ended it
        data += chunk
    return data


def stream(fd: int) -> io.TextIOWrapper:
    """Unbuffered, as with `python -u`: what goes to stdout and stderr stays in the order written."""
    errors = "backslashreplace" if fd == 2 else "surrogateescape"
    file = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(file, encoding="utf-8", errors=errors, write_through=True)


def run(source: bytes, name: str, module: types.ModuleType) -> int:
    """Execute code; the exit status that it would have as a program. Prints what it raises, without us."""
    text = source.decode("utf-8", "replace")
    # With no time of change, so that it is never checked against a file: tracebacks show what ran.
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    try:
        exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        return ended(error)
    return 0


def ended(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    try:
        # The first frame is ours; what compile() raises has no other.
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        if sys.excepthook is not sys.__excepthook__:
            sys.excepthook(type(error), error, frames)
        else:
            traceback.print_exception(type(error), error, frames)
    except BaseException:
        print(type(error).__name__, file=sys.stderr)
    return 1


main()
