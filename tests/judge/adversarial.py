"""Hostile programs and the verdict each must get. Where a program can be accepted it prints `ok`."""

from dataclasses import dataclass, field

from cef_env.judge import Verdict

ACCEPTED, WRONG_ANSWER, RUNTIME_ERROR = Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR
TIME_LIMIT, MEMORY_LIMIT, OUTPUT_LIMIT = Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT, Verdict.OUTPUT_LIMIT


@dataclass(frozen=True)
class Hostile:
    name: str
    program: str
    allowed: tuple[Verdict, ...]
    """Right verdicts; more than one where the kernel decides which limit is met first."""
    compile_error: bool = False
    elsewhere: dict[str, tuple[Verdict, ...]] = field(default_factory=dict)
    """Tier -> right verdicts there, where its documented limits make them differ."""

    def right(self, tier: str) -> tuple[Verdict, ...]:
        """The right verdicts on a tier."""
        return self.elsewhere.get(tier, self.allowed)


NO_CHILDREN = {"landlock_no_fork": (RUNTIME_ERROR,)}
"""For programs that end with an exception where fork is refused."""

EXPECTED = "ok"

REFUSED = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def refused(result):
    return result == -1
"""

HOSTILE = [
    Hostile("busy_loop", "while True: pass", (TIME_LIMIT,)),
    Hostile("sleep", "import time; time.sleep(1000)", (TIME_LIMIT,)),
    Hostile("allocate_forever", "a = []\nwhile True: a.append(bytearray(1 << 20))", (MEMORY_LIMIT,)),
    Hostile("allocate_at_once", "a = bytearray(1 << 40)", (MEMORY_LIMIT,)),
    Hostile(
        "fork_bomb",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        (TIME_LIMIT, MEMORY_LIMIT),
    ),
    Hostile(
        "daemon",
        """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(0.01)
            try: open("still_here", "a").write("x")
            except PermissionError: pass
    os._exit(0)
print("ok")
""",
        (ACCEPTED,),
        elsewhere=NO_CHILDREN,
    ),
    Hostile("stdout_flood", "while True: print('x' * (1 << 20))", (OUTPUT_LIMIT,)),
    Hostile("stderr_flood", "import sys\nwhile True: sys.stderr.write('x' * (1 << 20))", (OUTPUT_LIMIT,)),
    Hostile(
        "ignore_signals",
        """
import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass
""",
        (TIME_LIMIT,),
    ),
    Hostile(
        "swallow_exceptions",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        (TIME_LIMIT,),
    ),
    Hostile(
        "cpu_in_children",
        """
import os, time
def burn():
    end = time.process_time() + 0.6
    while time.process_time() < end: pass
for _ in range(3):
    if os.fork() == 0:
        burn()
        os._exit(0)
for _ in range(3): os.wait()
print("ok")
""",
        (TIME_LIMIT,),
        elsewhere=NO_CHILDREN,
    ),
    Hostile(
        "fifty_threads",
        """
import threading, time
threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("ok")
""",
        (ACCEPTED,),
    ),
    Hostile(
        "recursion_python",
        "import sys\nsys.setrecursionlimit(10**6)\n"
        "def depth(n): return 0 if n == 0 else 1 + depth(n - 1)\n"
        "print('ok' if depth(50000) == 50000 else 'no')",
        (ACCEPTED,),
    ),
    Hostile(
        "recursion_big_thread_stack",
        """
import sys, threading
sys.setrecursionlimit(10**7)
threading.stack_size(512 << 20)
from functools import lru_cache
@lru_cache(None)
def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
def main(): print("ok" if depth(30000) == 30000 else "no")
thread = threading.Thread(target=main)
thread.start()
thread.join()
""",
        (ACCEPTED, MEMORY_LIMIT),
    ),
    Hostile(
        "recursion_c_level",
        "import sys\nsys.setrecursionlimit(10**9)\n"
        "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
        (RUNTIME_ERROR, MEMORY_LIMIT, TIME_LIMIT),
    ),
    Hostile(
        "kill_everything",
        """
import os, signal
for pid in (-1, 1, os.getppid()):
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGSTOP):
        try: os.kill(pid, number)
        except OSError: pass
print("ok")
""",
        (ACCEPTED,),
    ),
    Hostile(
        "limits_of_others",
        """
import os, resource
for pid in range(1, 40):
    if pid == os.getpid(): continue
    try: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0))
    except OSError: continue
    print("reached", pid)
print("ok")
""",
        (ACCEPTED,),
    ),
    Hostile(
        "privileged_calls",
        REFUSED
        + """
numbers = {"x86_64": (101, 272, 165, 321, 425, 298, 323, 250, 155, 161, 248, 319),
           "aarch64": (117, 97, 40, 280, 425, 241, 282, 219, 41, 51, 217, 279)}[os.uname().machine]
open_ = [n for n in numbers if not refused(libc.syscall(n, 0x10000000, 0, 0, 0, 0))]
clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000):
    pid = libc.syscall(clone, flag | 17, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid > 0: open_.append(hex(flag))
print("ok" if not open_ else open_)
""",
        (ACCEPTED,),
    ),
    Hostile(
        "network",
        """
import socket
reached = []
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, 16, 40):
    try: socket.socket(family, socket.SOCK_STREAM)
    except OSError: continue
    reached.append(family)
print("ok" if not reached else reached)
""",
        (ACCEPTED,),
    ),
    Hostile(
        "read_host",
        f"PLANTED = {__file__!r}"
        + """
import os
found = []
watcher = os.getppid()
for path in (PLANTED, "/etc/shadow", "/proc/1/environ", "/proc/1/maps", f"/proc/{watcher}/environ", f"/proc/{watcher}/maps"):
    try: found.append(open(path, "rb").name)
    except OSError: pass
for path in (os.path.dirname(PLANTED), "/proc/1/fd", f"/proc/{watcher}/fd", f"/proc/{watcher}/map_files", "/var/lib"):
    try: found += os.listdir(path)
    except OSError: pass
for path in ("/cef/inside/zygote.py", os.__file__, "/etc/passwd"):
    try: found.append(open(path, "a").name)
    except OSError: pass
names = set(os.environ) - {"PATH", "HOME", "LANG", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PWD", "LC_CTYPE"}
print("ok" if not found and not names else (found, names))
""",
        (ACCEPTED,),
    ),
    Hostile(
        "forge_result",
        """
import os
for fd in range(3, 300):
    try: os.write(fd, b"\\0" * 29)
    except OSError: continue
    print("wrote", fd)
print("ok")
""",
        (ACCEPTED,),
    ),
    Hostile("right_output_exit_1", "print('ok', flush=True)\nraise SystemExit(1)", (RUNTIME_ERROR,)),
    Hostile("right_output_os_exit_0", "import os\nprint('ok', flush=True)\nos._exit(0)", (ACCEPTED,)),
    Hostile("segfault", "import ctypes; ctypes.string_at(0)", (RUNTIME_ERROR,)),
    Hostile("abort", "import os; os.abort()", (RUNTIME_ERROR,)),
    Hostile("close_stdout", "import os; os.close(1)", (WRONG_ANSWER, RUNTIME_ERROR)),
    Hostile("truncate_stdout", "import os\nos.ftruncate(1, 1 << 40)", (RUNTIME_ERROR, OUTPUT_LIMIT)),
    Hostile("seek_stdout", "import os\nos.lseek(1, 8 << 20, 0)\nos.write(1, b'ok')", (WRONG_ANSWER,)),
    Hostile(
        "write_stdin",
        "import os\ntry: os.write(0, b'z')\nexcept OSError: print('ok')",
        (ACCEPTED,),
    ),
    Hostile(
        "fill_files",
        """
import os
count = 0
try:
    while True:
        os.close(os.open(f"f{count}", os.O_CREAT | os.O_WRONLY))
        count += 1
except OSError: pass
try:
    while True: open("f0", "ab").write(b"x" * (1 << 20))
except OSError: pass
fds = []
try:
    while True: fds.append(os.dup(1))
except OSError: pass
print("ok")
""",
        (ACCEPTED,),
    ),
    Hostile(
        "time_of_a_device",
        """
import os
try: os.utime("/dev/null")
except PermissionError: print("ok")
""",
        (ACCEPTED,),
    ),
    Hostile("nul_in_source", "print('ok')\0", (), compile_error=True),
    Hostile("compile_bomb_nesting", "(" * 100_000 + ")" * 100_000, (), compile_error=True),
    Hostile("compile_bomb_unary", "-" * 200_000 + "1", (), compile_error=True),
    Hostile("compile_bomb_big_number", "1" * 5000, (), compile_error=True),
    Hostile("surrogate_in_source", "print('ok')#\udcff", (), compile_error=True),
    Hostile("not_utf8_output", "import os\nos.write(1, bytes(range(128, 256)))", (WRONG_ANSWER,)),
    Hostile("surrogate_output", "print(chr(0xDC80) * 3)", (WRONG_ANSWER,)),
    Hostile("surrogate_output_strict", "print(chr(0xD800))", (RUNTIME_ERROR,)),
    Hostile(
        "leave_state",
        REFUSED
        + """
import builtins, sys
before = getattr(builtins, "left", None) or "left" in sys.modules
folders = (os.getcwd(), "/dev/shm", "/tmp")
for folder in folders:
    try: before = before or os.listdir(folder)
    except OSError: pass
for folder in folders:
    try: open(folder + "/left", "w").write("x")
    except OSError: pass
builtins.left = sys.modules["left"] = sys
shmget = {"x86_64": 29, "aarch64": 194}[os.uname().machine]
shared = libc.syscall(shmget, 4242, 4096, 0o1666)
print("ok" if not before and refused(shared) else "state")
""",
        (ACCEPTED,),
    ),
]
