"""Ways of reading, printing and ending that real Python programs use and naive runners break: all accepted.

Does not hold idioms of the language and its library (see `idioms_language.py`).
"""

from cef_env.judge.corpus.labelled import ACCEPTED, SUM, Labelled

_READING = {
    "input": "input()\nprint(sum(map(int, input().split())))",
    "readline_as_input": """
import sys
input = sys.stdin.readline
input()
print(sum(map(int, input().split())))
""",
    "buffer_readline": """
import sys
input = sys.stdin.buffer.readline
input()
print(sum(map(int, input().split())))
""",
    "buffer_read": "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split()[1:])))",
    "buffer_readlines": "import sys\nprint(sum(map(int, sys.stdin.buffer.readlines()[1].split())))",
    "for_line_in_stdin": "import sys\nprint([sum(map(int, line.split())) for line in sys.stdin][1])",
    "read_after_readline": """
import sys
sys.stdin.readline()
print(sum(map(int, sys.stdin.read().split())))
""",
    "read_until_eof_error": """
total = []
while True:
    try:
        total += map(int, input().split())
    except EOFError:
        break
print(sum(total[1:]))
""",
    "iterator_over_lines": """
import sys
input = iter(sys.stdin.read().splitlines()).__next__
input()
print(sum(map(int, input().split())))
""",
    "open_0": "d = open(0).read().split()\nprint(sum(map(int, d[1:])))",
    "open_0_lines": "_, line = open(0)\nprint(sum(map(int, line.split())))",
    "os_read": "import os\nprint(sum(map(int, os.read(0, 1000).split()[1:])))",
    "os_read_of_fstat_size": """
import io, os
input = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline
input()
print(sum(map(int, input().split())))
""",
    "dev_stdin": "print(sum(map(int, open('/dev/stdin').read().split()[1:])))",
    "fileinput": "import fileinput\nprint([sum(map(int, x.split())) for x in fileinput.input()][1])",
    "stdin_rewrapped": """
import io, sys
sys.stdin = io.TextIOWrapper(sys.stdin.buffer, encoding="latin-1")
input()
print(sum(map(int, input().split())))
""",
    "stdin_seek": """
import sys
sys.stdin.read()
sys.stdin.seek(0)
input()
print(sum(map(int, input().split())))
""",
    "mmap_of_stdin": """
import mmap
data = mmap.mmap(0, 0, access=mmap.ACCESS_READ)
print(sum(map(int, data[:].split()[1:])))
""",
}

_PRINTING = {
    "buffer_write": """
import sys
input()
sys.stdout.buffer.write(b"%d" % sum(map(int, input().split())))
""",
    "os_write": "import os\ninput()\nos.write(1, str(sum(map(int, input().split()))).encode())",
    "stdout_write_without_newline": """
import sys
input()
sys.stdout.write(str(sum(map(int, input().split()))))
""",
    "print_to_file_argument": """
import sys
input()
print(sum(map(int, input().split())), file=sys.stdout, end="", flush=True)
""",
    "file_never_closed": "out = open(1, 'w')\ninput()\nout.write(str(sum(map(int, input().split()))))",
    "stdout_replaced": """
import io, os, sys
sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb"))
input()
print(sum(map(int, input().split())))
""",
    "stdout_collected_in_stringio": """
import io, sys
real, sys.stdout = sys.stdout, io.StringIO()
input()
print(sum(map(int, input().split())))
real.write(sys.stdout.getvalue())
""",
    "stdout_closed_at_the_end": """
import sys
input()
print(sum(map(int, input().split())))
sys.stdout.close()
""",
    "redirect_stdout": """
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as text:
    input()
    print(sum(map(int, input().split())))
print(text.getvalue(), end="")
""",
    "reconfigure": """
import sys
sys.stdout.reconfigure(line_buffering=True)
input()
print(sum(map(int, input().split())))
""",
    "noise_on_stderr": """
import sys
print("debug", file=sys.stderr)
input()
print(sum(map(int, input().split())))
""",
    "dup_of_stdout": """
import os
with os.fdopen(os.dup(1), "w") as out:
    input()
    out.write(str(sum(map(int, input().split()))))
""",
}

_ENDING = {
    "os_exit": "import os\ninput()\nprint(sum(map(int, input().split())), flush=True)\nos._exit(0)",
    "exit": "input()\nprint(sum(map(int, input().split())))\nexit()",
    "quit_0": "input()\nprint(sum(map(int, input().split())))\nquit(0)",
    "sys_exit_in_function": """
import sys
def f():
    input()
    print(sum(map(int, input().split())))
    sys.exit()
f()
""",
    "raise_system_exit": "input()\nprint(sum(map(int, input().split())))\nraise SystemExit",
    "exit_status_256": "input()\nprint(sum(map(int, input().split())))\nexit(256)",
    "atexit": """
import atexit
@atexit.register
def end():
    input()
    print(sum(map(int, input().split())))
""",
    "atexit_after_exit": """
import atexit
input()
atexit.register(print, sum(map(int, input().split())))
exit()
""",
    "thread_not_joined": """
import threading, time
def main():
    time.sleep(0.05)
    input()
    print(sum(map(int, input().split())))
threading.Thread(target=main).start()
""",
    "daemon_thread_still_running": """
import threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
input()
print(sum(map(int, input().split())))
""",
    "finalizer_prints": """
class Solver:
    def __del__(self):
        print(self.answer)
solver = Solver()
input()
solver.answer = sum(map(int, input().split()))
""",
    "finalizer_of_a_cycle": """
class A:
    def __init__(self): self.me = self
    def __del__(self): print(6)
a = A()
""",
    "finalizer_using_globals": """
class A:
    def __del__(self): sys.stdout.write("6")
import sys
a = A()
""",
    "stderr_closed": "import sys\nsys.stderr.close()\ninput()\nprint(sum(map(int, input().split())))",
}

PROGRAMS: tuple[Labelled, ...] = tuple(
    Labelled(name, program, SUM, ACCEPTED, note=f"idiom of {theme}")
    for theme, programs in (("reading", _READING), ("printing", _PRINTING), ("ending", _ENDING))
    for name, program in programs.items()
)
