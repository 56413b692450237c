"""What programs expect of a whole Python: modules, threads, processes, deep recursion. All accepted.

Does not hold idioms of reading and printing (see `idioms_io.py`), and nothing that needs a package from
outside the standard library.
"""

import sys

from cef_env.judge.corpus.labelled import ACCEPTED, RUNTIME_ERROR, SUM, Labelled, small_problem

_C_RECURSION_IS_CAPPED = (3, 12) <= sys.version_info < (3, 14)
"""Those versions end recursion through C at a fixed depth, whatever the stack."""

_DEEP = small_problem(("3\n1 2 3\n", "6\n"), time_s=5.0, memory_mb=768)

_LANGUAGE = {
    "main_guard": """
def main():
    input()
    print(sum(map(int, input().split())))
if __name__ == '__main__': main()
""",
    "globals_in_functions": """
total = 0
def f():
    global total
    total += sum(map(int, input().split()))
input()
f()
print(total)
""",
    "comprehension_sees_globals": """
input()
values = list(map(int, input().split()))
def f(): return [values[i] for i in range(len(values))]
print(sum(f()))
""",
    "class_of_the_statement": """
class Solution:
    def solve(self, values): return sum(values)
input()
print(Solution().solve([int(x) for x in input().split()]))
""",
    "eval_and_exec": "input()\nexec('total = eval(\"+\".join(input().split()))')\nprint(total)",
    "match_and_walrus": """
input()
match [int(x) for x in input().split()]:
    case [first, *rest] if (s := first + sum(rest)):
        print(s)
""",
    "future_import": "from __future__ import annotations\ndef f(x: Nothing): return x\nprint(f(6))",
    "encoding_cookie": "# -*- coding: latin-1 -*-\nprint(6)",
    "unicode": "s = 'ßñ日本'\nassert len(s) == 4\nprint(6)",
    "source_with_crlf": "input()\r\nprint(sum(map(int, input().split())))\r\n",
    "big_int_str": "import sys\nsys.set_int_max_str_digits(0)\nassert len(str(10**6000)) == 6001\nprint(6)",
    "asserts_are_on": "try:\n    assert False\nexcept AssertionError:\n    print(6)",
}

_LIBRARY = {
    "rare_modules": "import sqlite3, ctypes, zlib, hashlib, bz2, lzma, json, uuid, csv, colorsys\nprint(6)",
    "usual_modules": """
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string, typing
heap = [3, 1, 2]
heapq.heapify(heap)
print(functools.reduce(operator.add, heap))
""",
    "exact_numbers": """
from decimal import Decimal, getcontext
from fractions import Fraction
getcontext().prec = 60
print(int(Fraction(1, 3) * 18) if Decimal(2).sqrt() ** 2 < 3 else 0)
""",
    "dataclass_and_pickle": """
import pickle
from dataclasses import dataclass
@dataclass
class A:
    x: int
print(pickle.loads(pickle.dumps(A(6))).x)
""",
    "temporary_file": """
import tempfile
with tempfile.TemporaryFile("w+") as f:
    input()
    f.write(input())
    f.seek(0)
    print(sum(map(int, f.read().split())))
""",
    "file_in_the_working_folder": """
open("a.txt", "w").write("6")
print(open("a.txt").read())
""",
    "alarm": """
import signal
def late(*_):
    print(6)
    raise SystemExit(0)
signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.05)
while True: signal.pause()
""",
    "asyncio": """
import asyncio
async def f():
    input()
    print(sum(map(int, input().split())))
asyncio.run(f())
""",
}

_PROCESSES = {
    "thread_pool": """
from concurrent.futures import ThreadPoolExecutor
input()
with ThreadPoolExecutor(4) as pool: print(sum(pool.map(int, input().split())))
""",
    "multiprocessing": """
from multiprocessing import Pool
def f(x): return int(x)
if __name__ == '__main__':
    input()
    with Pool(2) as p: print(sum(p.map(f, input().split())))
""",
    "process_with_a_queue": """
from multiprocessing import Process, Queue
def work(queue, text): queue.put(sum(map(int, text.split())))
queue = Queue()
input()
child = Process(target=work, args=(queue, input()))
child.start()
print(queue.get())
child.join()
""",
    "fork_and_pipe": """
import os
read, write = os.pipe()
input()
text = input()
if os.fork() == 0:
    os.write(write, str(sum(map(int, text.split()))).encode())
    os._exit(0)
os.wait()
print(os.read(read, 100).decode())
""",
    "subprocess_python": """
import subprocess, sys
input()
print(subprocess.run([sys.executable, "-c", "print(6)"], capture_output=True, text=True).stdout)
""",
    "fifty_threads": """
import threading, time
threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(6)
""",
}

_RECURSION = {
    "recursion_50_000": """
import sys
sys.setrecursionlimit(10**6)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
print(6 if f(50000) == 50000 else 0)
""",
    "thread_with_big_stack": """
import sys, threading
sys.setrecursionlimit(10**6)
threading.stack_size(64 << 20)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
def main():
    input()
    f(20000)
    print(sum(map(int, input().split())))
t = threading.Thread(target=main)
t.start()
t.join()
""",
    "recursion_1_000_000_in_a_thread_of_512_mib": """
import sys, threading
sys.setrecursionlimit(10**7)
threading.stack_size(512 << 20)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
def main(): print(6 if f(10**6) == 10**6 else 0)
thread = threading.Thread(target=main)
thread.start()
thread.join()
""",
    "trampoline_of_generators": """
def f(n):
    yield 0 if n == 0 else 1 + (yield f(n - 1))
stack, value = [f(20000)], None
while stack:
    got = stack[-1].send(value)
    if hasattr(got, "send"):
        stack.append(got)
        value = None
    else:
        stack.pop()
        value = got
print(6 if value == 20000 else 0)
""",
}

_DEEP_C_RECURSION = """
import sys
from functools import lru_cache
sys.setrecursionlimit(10**6)
@lru_cache(None)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
assert f(50000) == 50000
print(6)
"""

PROGRAMS: tuple[Labelled, ...] = (
    *(
        Labelled(name, program, problem, ACCEPTED, note=f"idiom of {theme}")
        for theme, problem, programs in (
            ("the language", SUM, _LANGUAGE),
            ("the library", SUM, _LIBRARY),
            ("processes and threads", SUM, _PROCESSES),
            ("recursion", _DEEP, _RECURSION),
        )
        for name, program in programs.items()
    ),
    Labelled(
        "lru_cache_deep",
        _DEEP_C_RECURSION,
        _DEEP,
        RUNTIME_ERROR if _C_RECURSION_IS_CAPPED else ACCEPTED,
        note="needs a large stack of the main thread; Python 3.12 and 3.13 refuse it by themselves",
    ),
)
