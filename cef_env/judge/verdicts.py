"""From what a program did on one test to a verdict.

The one place where the order of the rules is written. Does not run programs and knows no problem.
"""

import signal

from cef_env.judge.checkers import Checker
from cef_env.judge.difference import readable
from cef_env.judge.types import TestResult, Verdict
from cef_env.sandbox.types import Execution, Limits, Stop

DETAIL_CHARACTERS = 200
BAD_ALLOC = b"terminate called after throwing an instance of 'std::bad_alloc'"


def decide(
    execution: Execution, limits: Limits, expected: bytes, length: int, checker: Checker
) -> TestResult:
    """The verdict on one execution; the first rule that applies decides.

    Memory comes before time because a program that thrashes at its memory limit also runs late. A program
    that ends with an uncaught `MemoryError` (non-zero status, and the last line on stderr names it) or
    `std::bad_alloc` asked for more memory than it was given: MEMORY_LIMIT, not RUNTIME_ERROR.
    """
    verdict, detail = _decide(execution, limits, expected, checker)
    return TestResult(
        length=length,
        verdict=verdict,
        cpu_s=execution.cpu_s,
        wall_s=execution.wall_s,
        memory_mb=execution.peak_bytes / (1 << 20),
        detail=readable(detail, DETAIL_CHARACTERS),
    )


def _decide(execution: Execution, limits: Limits, expected: bytes, checker: Checker) -> tuple[Verdict, str]:
    complaint = _last_line(execution.stderr)
    if execution.out_of_memory:
        return Verdict.MEMORY_LIMIT, f"needs more than {limits.memory_bytes >> 20} MiB"
    if execution.stop is Stop.CPU or execution.cpu_s > limits.cpu_s:
        return Verdict.TIME_LIMIT, f"CPU time over {limits.cpu_s:g} s"
    if execution.stop is Stop.WALL:
        return Verdict.TIME_LIMIT, f"idle: {execution.cpu_s:.2f} s of CPU in {limits.wall_s:g} s of wall time"
    if execution.output_exceeded:
        return Verdict.OUTPUT_LIMIT, f"printed more than {limits.output_bytes} bytes"
    if execution.status > 0:
        name = complaint.partition(":")[0].rpartition(".")[2]
        if name in ("MemoryError", "_ArrayMemoryError"):
            return Verdict.MEMORY_LIMIT, complaint
        return Verdict.RUNTIME_ERROR, complaint or f"exit status {execution.status}"
    if execution.status == -signal.SIGABRT and BAD_ALLOC in execution.stderr:
        return Verdict.MEMORY_LIMIT, "std::bad_alloc"
    if execution.status < 0:
        return Verdict.RUNTIME_ERROR, f"killed by {_signal_name(-execution.status)}"
    difference = checker(execution.stdout, expected)
    return (Verdict.ACCEPTED, "") if difference is None else (Verdict.WRONG_ANSWER, difference)


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
