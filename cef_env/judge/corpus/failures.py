"""The plain cases: programs that do not compile, are wrong, crash, or go past a limit by far.

Does not hold programs near a limit (see `near_limits.py`) or those that popular runners get wrong
(see `traps.py`).
"""

from cef_env.judge.corpus.labelled import (
    MEMORY_LIMIT,
    NO_COMPILE,
    OUTPUT_LIMIT,
    RUNTIME_ERROR,
    SUM,
    TIME_LIMIT,
    WRONG_ANSWER,
    Labelled,
    small_problem,
)

_IDLE = small_problem(("3\n1 2 3\n", "6\n"), time_s=0.1)
"""A short CPU limit brings the guard against idle programs close: 5.1 s."""

_NO_COMPILE = {
    "open_bracket": "print(",
    "python_2": "print 6",
    "wrong_indentation": "if True:\nprint(6)",
    "tabs_and_spaces": "if True:\n        print(6)\n\tprint(6)",
    "unterminated_string": "print('6)",
    "return_outside_function": "print(6)\nreturn",
    "nonlocal_at_module_level": "nonlocal x\nprint(6)",
    "unknown_future": "from __future__ import braces\nprint(6)",
    "prose_instead_of_code": "The answer is the sum of all numbers, therefore it is six.",
    "markdown_fence_left_in": "```python\nprint(6)\n```",
    "nul_in_source": "print(6)\0",
    "nesting_bomb": "(" * 100_000 + ")" * 100_000,
    "number_too_long_to_parse": "print(" + "1" * 5000 + ")",
}

_WRONG = {
    "empty_program": "",
    "comment_only": "# I do not know.",
    "function_never_called": "def main():\n    input()\n    print(sum(map(int, input().split())))",
    "sum_without_last": "input()\nprint(sum(map(int, input().split()[:-1])))",
    "off_by_one": "input()\nprint(sum(map(int, input().split())) + 1)",
    "sum_as_text": "input()\nprint(''.join(input().split()))",
    "prints_too_much": "input()\nprint(sum(map(int, input().split())))\nprint('done')",
    "answer_to_stderr": "import sys\ninput()\nprint(sum(map(int, input().split())), file=sys.stderr)",
    "answer_to_a_file": "input()\nprint(sum(map(int, input().split())), file=open('output.txt', 'w'))",
}

_CRASHES = {
    "division_by_zero": "1 / 0",
    "name_error": "input()\nprint(sum(map(int, input().splt())))",
    "index_error": "print(input().split()[5])",
    "value_error_on_input": "print(int('3 4'))",
    "assertion": "assert False, 'no'",
    "missing_module": "import no_such_module\nprint(6)",
    "reads_past_the_end": "input(); input(); input()\nprint(6)",
    "endless_recursion": "def f(): return f()\nf()",
    "raises_an_exception_group": "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
    "exit_status_3": "print(6)\nexit(3)",
    "exit_status_minus_1": "print(6)\nexit(-1)",
    "exit_with_a_message": "exit('no solution')",
    "os_exit_1": "import os\nprint(6, flush=True)\nos._exit(1)",
    "segmentation_fault": "import ctypes\nctypes.string_at(0)",
    "abort": "import os\nos.abort()",
    "kills_itself_by_term": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "kills_itself_by_kill": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "surrogate_output": "print(chr(0xD800))",
}

_SLOW = {
    "busy_loop": "while True: pass",
    "swallows_every_exception": """
while True:
    try:
        while True: pass
    except BaseException: pass
""",
    "ignores_every_signal": """
import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass
""",
    "catastrophic_pattern": "import re\nre.match('(a+)+$', 'a' * 40 + 'b')\nprint(6)",
    "long_power": "x = 7 ** (10 ** 8)\nprint(6)",
    "quadratic": """
n = 20000
total = 0
for i in range(n):
    for j in range(n):
        total += i ^ j
print(6)
""",
}

_HUNGRY = {
    "allocates_forever": "a = []\nwhile True: a.append(bytearray(1 << 20))",
    "allocates_at_once": "a = bytearray(1 << 40)",
    "list_of_lists": "a = [[0] * 1000 for _ in range(100_000)]\nprint(6)",
    "string_doubles": "s = 'x'\nwhile True: s += s",
    "raises_memory_error": "raise MemoryError('no')",
}

_LOUD = {
    "stdout_flood": "while True: print('x' * (1 << 20))",
    "stderr_flood": "import sys\nwhile True: sys.stderr.write('x' * (1 << 20))",
    "flood_by_os_write": "import os\nwhile True: os.write(1, bytes(1 << 20))",
}

PROGRAMS: tuple[Labelled, ...] = (
    *(
        Labelled(name, program, SUM, verdicts, note=note)
        for programs, verdicts, note in (
            (_NO_COMPILE, NO_COMPILE, "does not compile"),
            (_WRONG, WRONG_ANSWER, "ends well, answers wrong"),
            (_CRASHES, RUNTIME_ERROR, "ends with a status that is not 0, or by a signal"),
            (_SLOW, TIME_LIMIT, "busy far beyond the CPU limit"),
            (_HUNGRY, MEMORY_LIMIT, "far beyond the memory limit"),
            (_LOUD, OUTPUT_LIMIT, "far beyond the output limit"),
        )
        for name, program in programs.items()
    ),
    Labelled(
        "sleeps_for_an_hour",
        "import time\ntime.sleep(3600)",
        _IDLE,
        TIME_LIMIT,
        note="uses no CPU: the guard against idleness ends it",
    ),
    Labelled(
        "deadlock",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        _IDLE,
        TIME_LIMIT,
        note="uses no CPU: the guard against idleness ends it",
    ),
)
