"""Ways of reading, printing and ending that real programs use and naive judges break."""

import pytest

from cef_env.judge import Judge, Outcome
from tests.judge.helpers import TIERS, make_problem, tier_or_skip

TEXT = "3\n1 2 3\n"
PROBLEM = make_problem((TEXT, "6"))

IDIOMS = {
    "buffer_readline": "import sys\ninput = sys.stdin.buffer.readline\ninput()\nprint(sum(map(int, input().split())))",
    "for_line_in_stdin": "import sys\nprint([sum(map(int, line.split())) for line in sys.stdin][1])",
    "read_after_readline": "import sys\nsys.stdin.readline()\nprint(sum(map(int, sys.stdin.read().split())))",
    "open_0": "d = open(0).read().split()\nprint(sum(map(int, d[1:])))",
    "os_read": "import os\nprint(sum(map(int, os.read(0, 1000).split()[1:])))",
    "buffer_write": "import sys\ninput()\nsys.stdout.buffer.write(b'%d' % sum(map(int, input().split())))",
    "os_write": "import os\ninput()\nos.write(1, str(sum(map(int, input().split()))).encode())",
    "globals_in_functions": "total = 0\ndef f():\n    global total\n    total += sum(map(int, input().split()))\n"
    "input()\nf()\nprint(total)",
    "main_guard": "def main():\n    input()\n    print(sum(map(int, input().split())))\n"
    "if __name__ == '__main__': main()",
    "os_exit": "import os\ninput()\nprint(sum(map(int, input().split())), flush=True)\nos._exit(0)",
    "exit": "input()\nprint(sum(map(int, input().split())))\nexit()",
    "quit_0": "input()\nprint(sum(map(int, input().split())))\nquit(0)",
    "sys_exit_in_function": "import sys\ndef f():\n    input()\n    print(sum(map(int, input().split())))\n"
    "    sys.exit()\nf()",
    "thread_with_big_stack": "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(64 << 20)\n"
    "def f(n): return 0 if n == 0 else 1 + f(n - 1)\ndef main():\n    input()\n    f(20000)\n"
    "    print(sum(map(int, input().split())))\nt = threading.Thread(target=main)\nt.start()\nt.join()",
    "thread_not_joined": "import threading, time\ndef main():\n    time.sleep(0.05)\n    input()\n"
    "    print(sum(map(int, input().split())))\nthreading.Thread(target=main).start()",
    "atexit": "import atexit\n@atexit.register\ndef end():\n    input()\n    print(sum(map(int, input().split())))",
    "file_never_closed": "out = open(1, 'w')\ninput()\nout.write(str(sum(map(int, input().split()))))",
    "stdout_replaced": "import io, os, sys\nsys.stdout = io.TextIOWrapper(os.fdopen(1, 'wb'))\ninput()\n"
    "print(sum(map(int, input().split())))",
    "multiprocessing": "from multiprocessing import Pool\ndef f(x): return int(x)\n"
    "if __name__ == '__main__':\n    input()\n    with Pool(2) as p: print(sum(p.map(f, input().split())))",
    "subprocess_python": "import subprocess, sys\ninput()\n"
    "print(subprocess.run([sys.executable, '-c', 'print(6)'], capture_output=True, text=True).stdout)",
    "asyncio": "import asyncio\nasync def f():\n    input()\n    print(sum(map(int, input().split())))\nasyncio.run(f())",
    "temporary_file": "import tempfile\nwith tempfile.TemporaryFile('w+') as f:\n    input()\n    f.write(input())\n"
    "    f.seek(0)\n    print(sum(map(int, f.read().split())))",
    "dataclass_and_pickle": "import pickle\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
    "print(pickle.loads(pickle.dumps(A(6))).x)",
    "lru_cache_deep": "import sys\nfrom functools import lru_cache\nsys.setrecursionlimit(10**6)\n"
    "@lru_cache(None)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nassert f(50000) == 50000\nprint(6)",
    "rare_modules": "import sqlite3, ctypes, zlib, hashlib, bz2, lzma, json, uuid, csv, colorsys\nprint(6)",
    "encoding_cookie": "# -*- coding: latin-1 -*-\nprint(6)",
    "unicode": "s = 'ßñ日本'\nassert len(s) == 4\nprint(6)",
    "future_import": "from __future__ import annotations\ndef f(x: Nothing) -> Nowhere: return x\nprint(f(6))",
    "source_with_crlf": "input()\r\nprint(sum(map(int, input().split())))\r\n",
    "big_int_str": "import sys\nsys.set_int_max_str_digits(0)\nassert len(str(10**6000)) == 6001\nprint(6)",
}


IMPOSSIBLE = {
    "landlock": {"multiprocessing", "temporary_file"},
    "landlock_no_fork": {"multiprocessing", "temporary_file", "subprocess_python"},
}
"""What the documented limits of a tier exclude: files that programs write, and processes they start."""


@pytest.mark.parametrize("tier", TIERS)
def test_idioms(tier: str) -> None:
    tier_or_skip(tier)
    with Judge(workers=2, sandbox=tier) as judge:
        results = judge.map([(PROBLEM, program) for program in IDIOMS.values()])
    failed = {
        name: result.compile_error or result.failed
        for name, result in zip(IDIOMS, results)
        if result.outcome is not Outcome.CORRECT
    }
    assert set(failed) == IMPOSSIBLE.get(tier, set()), failed


def test_hashes_and_orders_are_the_same_in_every_run(judge: Judge) -> None:
    program = "print(hash('abc'), list({'x', 'y', 'z', 'w'}))"
    seen = {judge.run(make_problem((f"{n}", "no")), program).tests[0].detail for n in range(3)}
    assert len(seen) == 1


def test_random_differs_between_runs(judge: Judge) -> None:
    program = "import random\nprint(random.random())"
    seen = {judge.run(make_problem((f"{n}", "no")), program).tests[0].detail for n in range(3)}
    assert len(seen) == 3
