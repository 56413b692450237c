"""How the scripted debugger tests: the call that runs a program on the samples, and what its output says.

In a terminal it runs files on `samples/*.in`. The Python tool has no files, so there the samples, which a
solver may see, are part of the code. Hidden tests are never used. Programs only, no functions.
"""

import re

from cef_env.envs.tools import call_text
from cef_env.errors import UserError
from cef_env.problems import Problem
from cef_env.problems.types import Submission

_CODE = """\
import contextlib, io, sys
program = {program!r}
samples = {samples!r}
good = 0
for number, (given, expected) in enumerate(samples, 1):
    sys.stdin, printed = io.StringIO(given), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(program, "solution.py", "exec"), {{"__name__": "__main__"}})
    except Exception as error:
        print(f"sample {{number}}: failed, {{error!r}}")
        continue
    right = printed.getvalue().split() == expected.split()
    good += right
    print(f"sample {{number}}: " + ("passed" if right else f"failed, it printed {{printed.getvalue()!r}}"))
print(f"{{good}} of {{len(samples)}} samples passed")
"""
_COMMAND = """
good=0 all=0
for i in $(ls samples/*.in 2> /dev/null); do
  all=$((all + 1)) name=$(basename $i .in)
  if timeout 5 python3 solution.py < $i 2> errors | diff -b - ${i%.in}.out > difference
  then good=$((good + 1)); echo "sample $name: passed"
  else echo "sample $name: failed"; head -4 difference; tail -1 errors; fi
done
echo "$good of $all samples passed\""""
_SUMMARY = re.compile(r"^(\d+) of (\d+) samples passed$", re.MULTILINE)


def write_file(name: str, text: str) -> str:
    """A bash command that writes `text`, and a line break where none ends it, into a file."""
    mark = "END"
    while mark in text.splitlines():
        mark += "_"
    return f"cat > {name} <<'{mark}'\n{text.rstrip()}\n{mark}"


def sample_call(problem: Problem, submission: Submission, tools: frozenset[str]) -> str:
    """The call that runs a Python program on the samples; in a terminal it first writes `solution.py`."""
    if problem.function is not None:
        raise UserError(f"problem {problem.id!r} asks for a function, which the debugger cannot run")
    if "bash" in tools:
        return call_text("bash", "command", write_file("solution.py", submission.program) + _COMMAND)
    samples = [(test.input, test.output) for test in problem.tests if test.sample]
    return call_text("python", "code", _CODE.format(program=submission.program, samples=samples))


def passes(output: str) -> bool:
    """Whether every sample passed, by what the tool printed. A run that was stopped prints no summary."""
    summaries = _SUMMARY.findall(output)
    return bool(summaries) and all(good == of for good, of in summaries)
