"""What happens inside one test's process: the program runs as `__main__`, and ends as under CPython.

Runs inside the box, after the process has given up every privilege; standard library only. Does not
confine anything: `confine.py` has done that before.
"""

# ruff: noqa: BLE001 - a judged program may raise anything, and all of it must become an exit status.

import atexit
import contextlib
import gc
import io
import os
import sys
import threading
from types import CodeType
from typing import Any

from . import functional


def execute(
    code: CodeType,
    arguments: list[str],
    finalizers: bool,
    function: str | None = None,
    crash_status: int = 1,
) -> int:
    """Run a program; returns the exit status of its process.

    Args:
        arguments: `sys.argv[1:]`.
        finalizers: whether it may define `__del__`; then objects are collected at the end as CPython does,
            while globals are still there. Without, nobody can tell, and the time is saved.
        function: of a function-style problem: the method of `Solution`, or the function, to call on stdin.
        crash_status: what CPython would exit with after an uncaught exception, were it not 1.
    """
    stdio: Any = sys  # the checker holds sys.__stdin__ and its like for constants
    stdio.stdin = stdio.__stdin__ = text_stream(0, "r")
    stdio.stdout = stdio.__stdout__ = stdout = text_stream(1, "w")
    stdio.stderr = stdio.__stderr__ = text_stream(2, "w")
    sys.argv[:] = ["main.py", *arguments]
    sys.orig_argv[:] = [sys.executable, "main.py", *arguments]
    folder = os.getcwd()
    sys.path.insert(0, folder)
    main: Any = type(sys)("__main__")
    main.__file__ = f"{folder}/main.py"
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main
    status = 0
    try:
        if function is None:
            exec(code, main.__dict__)
        else:
            answer(code, function)
    except BaseException as error:
        status = exit_status(error, crash_status)
    for shutdown in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]
        try:
            shutdown()
        except BaseException as error:
            status = status or exit_status(error, crash_status)
    # As the interpreter does at exit: flush what the program made of stdout, put the original back, then drop
    # the globals, which flushes files left open on fd 1, and flush again.
    status = status or flushed(sys.stdout)
    stdio.stdout = stdio.__stdout__ = stdout
    with contextlib.suppress(BaseException):
        if finalizers:
            del sys.modules["__main__"], main, code
            gc.collect()
        else:
            main.__dict__.clear()
    status = status or flushed(stdout)
    with contextlib.suppress(BaseException):
        sys.stderr.flush()
    return status


def answer(code: CodeType, function: str) -> None:
    """Writes the value of a function-style program to stdout, and nothing that the program prints."""
    text = sys.stdin.read()
    stdout = os.dup(1)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    module = sys.modules[functional.MODULE] = type(sys)(functional.MODULE)
    functional.prelude(module.__dict__)
    exec(code, module.__dict__)
    value = functional.call(module.__dict__, function, text)
    with open(stdout, "wb") as file:
        file.write(value)


def flushed(stream: Any) -> int:
    """0 when the stream is flushed, missing or closed; 120, as in CPython, when flushing fails."""
    try:
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    except BaseException:
        return 120
    return 0


def exit_status(error: BaseException, crash_status: int) -> int:
    """The status CPython would exit with, after printing what it would print."""
    try:
        if isinstance(error, SystemExit):
            if error.code is None:
                return 0
            if isinstance(error.code, int):
                return error.code & 0xFF if -(2**63) <= error.code < 2**63 else 255
            sys.stderr.write(f"{error.code}\n")
            return 1
        frames = error.__traceback__
        sys.excepthook(type(error), error, frames.tb_next if frames else None)
    except BaseException:
        return crash_status
    return crash_status


def text_stream(fd: int, mode: str) -> io.TextIOWrapper:
    raw_file = io.FileIO(fd, mode, closefd=False)
    raw_file.name = ("<stdin>", "<stdout>", "<stderr>")[fd]
    buffered = io.BufferedReader(raw_file) if mode == "r" else io.BufferedWriter(raw_file)
    errors = "backslashreplace" if fd == 2 else "surrogateescape"
    stream = io.TextIOWrapper(buffered, encoding="utf-8", errors=errors, line_buffering=fd == 2)
    stream.mode = mode  # type: ignore[misc]
    return stream


class ExitBuiltin:
    """`exit` and `quit`, which `python -S` lacks and programs use."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Use {self.name}() or Ctrl-D (i.e. EOF) to exit"

    def __call__(self, code: object = None) -> None:
        raise SystemExit(code)
