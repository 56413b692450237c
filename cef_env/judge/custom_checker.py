"""Checker programs: a problem's own code decides whether an output is right.

A checker runs in boxes of its own, so that expected outputs never enter the box of a judged program. It may
use 10 s of CPU time, 1 GiB of memory and 128 MiB of output a test, on three files of its working directory:

    style    command line                      standard input   accepted   wrong answer
    testlib  input output answer               empty            0          1, 2, 4 and 8
    icpc     input answer feedback/ arguments  the output       42         43

testlib's 2 is a wrong format, 4 something left after a right answer, 8 an output that ended early; further
arguments follow there, too. Everything else is a fault of the instrument, never a verdict: other statuses
(3, testlib's own "fail"; 5 and 7, points, since nothing says how many points are all of them), signals,
exceeded limits, uncaught Python exceptions, and checkers that do not compile. They raise `CheckerError`.
An output that is not UTF-8 is wrong without asking a checker, where the expected one is UTF-8: many checkers
would fail on it.

C++ checkers may include `testlib.h`, see `include/testlib.h`. Headers in the folder that the environment
variable CEF_INCLUDE names go first. Does not know limits or verdicts of programs (see `verdicts.py`).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cef_env.errors import CheckerError, UserError
from cef_env.judge.languages import CompileError, Compiler, Language
from cef_env.judge.pool import BoxPool
from cef_env.problems.types import CheckerProgram
from cef_env.sandbox.box import Box
from cef_env.sandbox.tiers import Plan
from cef_env.sandbox.types import Contents, Execution, Limits, Stop

Check = Callable[[bytes, bytes, bytes], str | None]
"""(stdin, printed, expected) -> None when the output is accepted, else one line that says why not."""

LIMITS = Limits(cpu_s=10.0, memory_bytes=1 << 30, output_bytes=128 << 20)
"""A message may quote what a program printed, so it may be longer than that."""
CRASHED = 99
"""Status of a Python checker that ends with an uncaught exception: 1 would read as a wrong answer."""
FILES_BYTES = 512 << 20
"""Input, output and answer of one test together."""
INCLUDE_VARIABLE = "CEF_INCLUDE"
MAX_HEADERS = 20
FEEDBACK = "feedback/judgemessage.txt"

ACCEPTED = {"testlib": (0,), "icpc": (42,)}
WRONG = {"testlib": (1, 2, 4, 8), "icpc": (43,)}
FAULTS = {"testlib": {3: "reports a fault", 5: "awards points", 7: "awards points"}, "icpc": {}}


class CheckerPrograms:
    """Lends checkers, compiled and loaded. Thread-safe."""

    def __init__(self, plan: Plan, size: int, compiler: Compiler) -> None:
        self._pool = BoxPool(plan, size, Contents(files_bytes=FILES_BYTES))
        self._compiler = compiler

    @contextmanager
    def lend(self, program: CheckerProgram) -> Iterator[Check]:
        """A checker for the tests of one run."""
        executable = None
        if program.language != Language.PYTHON:
            try:
                headers = self.headers(program)
                executable = self._compiler.compile(program.source, Language(program.language), headers)
            except CompileError as error:
                raise CheckerError(f"the checker does not compile: {error}") from error
        with self._pool.box() as box:
            if executable is not None:
                box.load_native(executable, LIMITS)
            elif (message := box.load(program.source, LIMITS, crash_status=CRASHED)) is not None:
                raise CheckerError(f"the checker does not compile: {message}")
            yield lambda stdin, printed, expected: _check(box, program, stdin, printed, expected)
            box.unload()

    @staticmethod
    def headers(program: CheckerProgram | None) -> dict[str, bytes]:
        """What a checker may include; `UserError` when CEF_INCLUDE names no folder of a few headers."""
        if program is None or program.language == Language.PYTHON:
            return {}
        found = {"testlib.h": (Path(__file__).parent / "include" / "testlib.h").read_bytes()}
        folder = os.environ.get(INCLUDE_VARIABLE)
        if folder:
            try:
                own = sorted(path for path in Path(folder).iterdir() if path.suffix in (".h", ".hpp"))
                found |= {path.name: path.read_bytes() for path in own[: MAX_HEADERS + 1]}
            except OSError as error:
                raise UserError(
                    f"{INCLUDE_VARIABLE}={folder}: {error.strerror}; name a folder of headers"
                ) from error
            if len(own) > MAX_HEADERS:
                raise UserError(
                    f"{INCLUDE_VARIABLE}={folder}: holds more than {MAX_HEADERS} headers; use a smaller one"
                )
        return found

    def close(self) -> None:
        self._pool.close()


def _check(box: Box, program: CheckerProgram, stdin: bytes, printed: bytes, expected: bytes) -> str | None:
    if is_text(expected) and not is_text(printed):
        return "the output is not UTF-8"
    files = {"input": stdin, "answer": expected}
    collect: tuple[str, ...] = ()
    if program.style == "testlib":
        given, arguments = b"", ["input", "output", "answer"]
        files["output"] = printed
    else:
        given, arguments = printed, ["input", "answer", "feedback/"]
        collect = (FEEDBACK,)
    arguments += program.arguments
    execution = box.run(given, arguments, files, collect)
    if execution.killed_from_outside:
        execution = box.run(given, arguments, files, collect)
    fault = _limit(execution)
    if fault is not None:
        raise CheckerError(f"the checker {fault}")
    message = _first_line(execution.files[FEEDBACK] if collect else execution.stderr)
    if execution.status in ACCEPTED[program.style]:
        return None
    if execution.status in WRONG[program.style]:
        return message or f"the checker rejects it with status {execution.status}"
    last = execution.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    known = FAULTS[program.style].get(execution.status, "ended")
    why = "" if not last else f": {last[:200]}"
    raise CheckerError(f"the checker {known} with status {execution.status}{why}")


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _limit(execution: Execution) -> str | None:
    if execution.out_of_memory:
        return f"needs more than {LIMITS.memory_bytes >> 20} MiB"
    if execution.stop is not Stop.NONE or execution.cpu_s > LIMITS.cpu_s:
        return f"takes more than {LIMITS.cpu_s:g} s"
    if execution.output_exceeded:
        return f"prints more than {LIMITS.output_bytes >> 20} MiB"
    if execution.status < 0:
        return f"was ended by signal {-execution.status}"
    return None


def _first_line(text: bytes) -> str:
    lines = text[:4096].decode("utf-8", "replace").splitlines()
    return next((line.strip()[:200] for line in lines if line.strip()), "")
