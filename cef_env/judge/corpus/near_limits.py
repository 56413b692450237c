"""Programs close to a limit, on either side, and limits that can be dodged: children, threads, files.

Does not hold programs far beyond a limit (see `failures.py`). Margins are wide enough for a busy machine:
CPU time hardly moves with load, wall time does and decides nothing here.
"""

from cef_env.judge.corpus.labelled import (
    ACCEPTED,
    MEMORY_LIMIT,
    OUTPUT_LIMIT,
    SUM,
    TIME_LIMIT,
    Labelled,
    small_problem,
)

_SMALL_MEMORY = small_problem(("3\n1 2 3\n", "6\n"), memory_mb=32)

_BURN = """
import time
def burn(seconds):
    while time.process_time() < seconds: pass
"""

_TOUCH = """
def touch(mib):
    memory = bytearray(mib << 20)
    for i in range(0, len(memory), 4096): memory[i] = 1
    return memory
"""

_CPU = (
    Labelled("half_of_the_cpu_limit", _BURN + "burn(0.25)\nprint(6)", SUM, ACCEPTED),
    Labelled("four_fifths_of_the_cpu_limit", _BURN + "burn(0.4)\nprint(6)", SUM, ACCEPTED),
    Labelled(
        "a_quarter_over_the_cpu_limit",
        _BURN + "burn(0.625)\nprint(6)",
        SUM,
        TIME_LIMIT,
        note="prints the right answer, too late",
    ),
    Labelled(
        "sleeps_twice_the_cpu_limit",
        "import time\ntime.sleep(1)\nprint(6)",
        SUM,
        ACCEPTED,
        note="1 s of wall within 0.5 s of CPU: CPU decides, or a busy machine would fail programs",
    ),
    Labelled(
        "cpu_in_waited_children",
        _BURN
        + """
import os
for _ in range(3):
    if os.fork() == 0:
        burn(0.4)
        os._exit(0)
for _ in range(3): os.wait()
print(6)
""",
        SUM,
        TIME_LIMIT,
        note="no single process is over the limit; together they are",
    ),
    Labelled(
        "cpu_in_a_grandchild",
        _BURN
        + """
import os
if os.fork() == 0:
    if os.fork() == 0:
        burn(0.8)
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
print(6)
""",
        SUM,
        TIME_LIMIT,
    ),
    Labelled(
        "cpu_in_two_threads",
        """
import hashlib, threading
def work():
    for _ in range(100): hashlib.pbkdf2_hmac("sha256", b"x", b"y", 20_000)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(6)
""",
        SUM,
        TIME_LIMIT,
        note="on two cores wall time is half of CPU time",
    ),
    Labelled(
        "cpu_in_the_kernel",
        "import os\nwhile True: os.stat('/')\n",
        SUM,
        TIME_LIMIT,
        note="system time counts like user time",
    ),
    Labelled(
        "slow_at_exit",
        "import atexit\natexit.register(lambda: [None for _ in iter(int, 1)])\nprint(6)",
        SUM,
        TIME_LIMIT | MEMORY_LIMIT,
        note="an endless list after the answer: time or memory, whichever ends first",
    ),
)

_MEMORY = (
    Labelled("memory_just_under_the_limit", _TOUCH + "m = touch(108)\nprint(6)", SUM, ACCEPTED),
    Labelled("memory_just_over_the_limit", _TOUCH + "m = touch(148)\nprint(6)", SUM, MEMORY_LIMIT),
    Labelled(
        "memory_freed_in_between",
        _TOUCH + "for _ in range(4): touch(80)\nprint(6)",
        SUM,
        ACCEPTED,
        note="320 MiB in all, never more than 80 at once",
    ),
    Labelled(
        "memory_peak_before_the_answer",
        _TOUCH + "m = touch(160)\ndel m\nprint(6)",
        SUM,
        MEMORY_LIMIT,
        note="the peak counts, not what is held at the end",
    ),
    Labelled(
        "memory_untouched",
        "import mmap\nm = mmap.mmap(-1, 512 << 20)\nm[0] = 1\nprint(6)",
        _SMALL_MEMORY,
        ACCEPTED,
        note="address space is not memory",
    ),
    Labelled(
        "memory_of_thread_stacks_untouched",
        """
import threading
threading.stack_size(64 << 20)
threads = [threading.Thread(target=int) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(6)
""",
        _SMALL_MEMORY,
        ACCEPTED,
        note="a limit on address space would refuse this",
    ),
    Labelled(
        "memory_error_caught",
        "try: bytearray(1 << 44)\nexcept MemoryError: print(6)",
        SUM,
        ACCEPTED,
        note="asking is no crime when the program copes",
    ),
    Labelled(
        "memory_of_three_children",
        _TOUCH
        + """
import os, time
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        m = touch(60)
        time.sleep(0.3)
        os._exit(0)
    children.append(child)
print(6 if all(os.waitpid(child, 0)[1] == 0 for child in children) else 0)
""",
        SUM,
        MEMORY_LIMIT,
        weaker=ACCEPTED,
        note="60 MiB in each of three: without a control group only each single process is measured",
    ),
    Labelled(
        "memory_in_files",
        "for name in 'abcd': open(name, 'wb').write(bytes(14 << 20))\nprint(6)",
        _SMALL_MEMORY,
        MEMORY_LIMIT,
        weaker=ACCEPTED,
        note="files of a test live in memory: only a control group charges them to it",
    ),
)

_OUTPUT = (
    Labelled(
        "output_just_under_the_limit",
        "print(' ' * (15 << 20))\nprint(6)",
        SUM,
        ACCEPTED,
        note="15 of 16 MiB, nearly all of it white space",
    ),
    Labelled("output_just_over_the_limit", "print(6)\nprint(' ' * (17 << 20))", SUM, OUTPUT_LIMIT),
    Labelled(
        "output_in_a_hole",
        "import os\nos.write(1, b'6')\nos.ftruncate(1, 1 << 25)",
        SUM,
        # The kernel refuses at the same size; whether as a signal, an error or a size differs.
        OUTPUT_LIMIT | frozenset({"runtime_error"}),
        note="a sparse file is as long as it says",
    ),
)

PROGRAMS: tuple[Labelled, ...] = (*_CPU, *_MEMORY, *_OUTPUT)
