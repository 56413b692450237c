"""Programs that popular runners get wrong: trusting output without status, status without output, wall time.

Does not hold hostile programs: those are tests of the sandbox, not labels for a user's machine.
"""

from cef_env.judge.corpus.labelled import (
    ACCEPTED,
    RUNTIME_ERROR,
    SUM,
    SUM_3,
    TIME_LIMIT,
    WRONG_ANSWER,
    Labelled,
    small_problem,
)

_NOTHING = small_problem(("3\n1 2 3\n", ""))
_NO_INPUT = small_problem(("", "0\n"))
_IDLE = small_problem(("3\n1 2 3\n", "6\n"), time_s=0.1)
_TWO_LINES = small_problem(("2\n1 2\n", "1 2\n3 4\n"))
_YES = small_problem(("1\n", "YES\n"))
_UNICODE = small_problem(("1\n", "naïve 日本\n"))
_LARGE = small_problem((" ".join(map(str, range(100_000))), "\n".join(map(str, range(100_000)))), time_s=1.0)

_STATUS = (
    Labelled("crash_where_nothing_is_expected", "1 / 0", _NOTHING, RUNTIME_ERROR),
    Labelled("nothing_where_nothing_is_expected", "", _NOTHING, ACCEPTED),
    Labelled("something_where_nothing_is_expected", "print(6)", _NOTHING, WRONG_ANSWER),
    Labelled("right_output_then_exit_1", "print(6, flush=True)\nraise SystemExit(1)", SUM, RUNTIME_ERROR),
    Labelled("right_output_then_exception", "print(6, flush=True)\n[][0]", SUM, RUNTIME_ERROR),
    Labelled(
        "right_output_then_segmentation_fault",
        "import ctypes\nprint(6, flush=True)\nctypes.string_at(0)",
        SUM,
        RUNTIME_ERROR,
    ),
    Labelled("wrong_output_then_exit_1", "print(7, flush=True)\nraise SystemExit(1)", SUM, RUNTIME_ERROR),
    Labelled("answer_as_exit_message", "import sys\nsys.exit('6')", SUM, RUNTIME_ERROR),
    Labelled("answer_as_exit_status", "exit(6)", SUM, RUNTIME_ERROR),
    Labelled(
        "exception_in_a_thread",
        """
import threading
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
print(6)
""",
        SUM,
        ACCEPTED,
        note="Python prints it and exits with status 0",
    ),
    Labelled(
        "exit_in_a_thread",
        """
import sys, threading
thread = threading.Thread(target=lambda: sys.exit(5))
thread.start()
thread.join()
print(6)
""",
        SUM,
        ACCEPTED,
        note="ends the thread alone",
    ),
    Labelled(
        "exception_in_a_finalizer",
        "class A:\n    def __del__(self): 1 / 0\nA()\nprint(6)",
        SUM,
        ACCEPTED,
        note="Python prints it and goes on",
    ),
    Labelled(
        "crash_in_a_child_that_nobody_waits_for",
        "import os\nif os.fork() == 0: os.abort()\nprint(6)",
        SUM,
        ACCEPTED,
    ),
    Labelled(
        "exception_caught_and_reported", "try: 1 / 0\nexcept ZeroDivisionError: print(6)", SUM, ACCEPTED
    ),
)

_OUTPUT = (
    Labelled("no_final_newline", "print(6, end='')", SUM, ACCEPTED),
    Labelled("spaces_and_newlines_at_the_end", "print(' 6  \\n\\n\\n')", SUM, ACCEPTED),
    Labelled("carriage_returns", "print('1 2\\r\\n3 4\\r')", _TWO_LINES, ACCEPTED),
    Labelled("only_the_first_line", "print('1 2')", _TWO_LINES, WRONG_ANSWER),
    Labelled("tokens_glued_together", "print('12 34')", _TWO_LINES, WRONG_ANSWER),
    Labelled("repr_of_a_list", "print([1, 2])\nprint([3, 4])", _TWO_LINES, WRONG_ANSWER),
    Labelled("repr_of_bytes", "print(b'6')", SUM, WRONG_ANSWER),
    Labelled("a_float_for_an_integer", "input()\nprint(sum(map(float, input().split())))", SUM, WRONG_ANSWER),
    Labelled("leading_zeros", "print('06')", SUM, WRONG_ANSWER),
    Labelled("other_case", "print('Yes')", _YES, WRONG_ANSWER),
    Labelled("answer_inside_prose", "print('The answer is 6')", SUM, WRONG_ANSWER),
    Labelled(
        "prompt_counts_as_output", "input('n? ')\nprint(sum(map(int, input().split())))", SUM, WRONG_ANSWER
    ),
    Labelled("nul_after_the_answer", "print('6\\0')", SUM, WRONG_ANSWER),
    Labelled("no_break_space_is_no_space", "print('1\\u00a02')\nprint('3 4')", _TWO_LINES, WRONG_ANSWER),
    Labelled("colour_codes", "print('\\x1b[32m6\\x1b[0m')", SUM, WRONG_ANSWER),
    Labelled("utf_8", "print('naïve 日本')", _UNICODE, ACCEPTED),
    Labelled(
        "latin_1",
        "import sys\nsys.stdout.buffer.write('naïve'.encode('latin-1'))",
        _UNICODE,
        WRONG_ANSWER,
        note="not even UTF-8: wrong, and no fault of the judge",
    ),
    Labelled(
        "never_flushed_before_os_exit",
        "import os\nprint(6)\nos._exit(0)",
        SUM,
        WRONG_ANSWER,
        note="the buffer dies with the process, as under a pipe",
    ),
    Labelled(
        "written_then_overwritten", "import os\nos.write(1, b'6')\nos.pwrite(1, b'7', 0)", SUM, WRONG_ANSWER
    ),
    Labelled("a_hundred_thousand_lines", "for x in input().split(): print(x)", _LARGE, ACCEPTED),
    Labelled(
        "a_hundred_thousand_lines_last_one_wrong",
        "for x in input().split(): print(x if x != '99999' else 0)",
        _LARGE,
        WRONG_ANSWER,
    ),
    Labelled("no_input_at_all", "import sys\nprint(len(sys.stdin.read()))", _NO_INPUT, ACCEPTED),
    Labelled("input_where_there_is_none", "input()\nprint(0)", _NO_INPUT, RUNTIME_ERROR),
)

_READ = "n = int(input())\ntotal = sum(map(int, input().split()))\n"
_LATER = (
    Labelled("right_on_every_test", _READ + "print(total)", SUM_3, ACCEPTED, passed=3),
    Labelled(
        "wrong_on_the_last_test_only", _READ + "print(total if n < 5 else 0)", SUM_3, WRONG_ANSWER, passed=2
    ),
    Labelled(
        "crash_on_the_last_test_only",
        _READ + "print(total if n < 5 else 1 / 0)",
        SUM_3,
        RUNTIME_ERROR,
        passed=2,
    ),
    Labelled(
        "slow_on_the_last_test_only", _READ + "while n == 5: pass\nprint(total)", SUM_3, TIME_LIMIT, passed=2
    ),
    Labelled("constant_that_fits_the_second_test", "print(6)", SUM_3, WRONG_ANSWER, passed=0),
    Labelled(
        "remembers_in_a_file",
        """
import os
first = not os.path.exists("/tmp/seen")
open("/tmp/seen", "w").close()
n, total = int(input()), sum(map(int, input().split()))
print(total if first else 0)
""",
        SUM_3,
        ACCEPTED,
        passed=3,
        note="every test starts from the same state",
    ),
    Labelled(
        "remembers_in_a_module",
        """
import sys
first = not hasattr(sys, "seen")
sys.seen = True
n, total = int(input()), sum(map(int, input().split()))
print(total if first else 0)
""",
        SUM_3,
        ACCEPTED,
        passed=3,
        note="every test starts from the same state",
    ),
)

_HANGS = (
    Labelled(
        "answers_and_hangs",
        "import time\nprint(6, flush=True)\ntime.sleep(3600)",
        _IDLE,
        TIME_LIMIT,
        note="an answer counts when the program ends",
    ),
    Labelled("answers_and_spins", "print(6, flush=True)\nwhile True: pass", SUM, TIME_LIMIT),
    Labelled(
        "thread_that_never_ends",
        "import threading\nprint(6, flush=True)\nthreading.Thread(target=threading.Event().wait).start()",
        _IDLE,
        TIME_LIMIT,
        note="Python waits for it at exit",
    ),
    Labelled(
        "child_that_never_ends",
        "import os, time\nif os.fork() == 0: time.sleep(3600)\nprint(6)",
        SUM,
        ACCEPTED,
        note="the program has ended; what it left is killed",
    ),
)

PROGRAMS: tuple[Labelled, ...] = (*_STATUS, *_OUTPUT, *_LATER, *_HANGS)
