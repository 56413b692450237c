"""Programs that are a function: what stands before them, and the call that gives their answer.

For problems whose solution is a method of `class Solution`, or a plain function, instead of a program that
reads and prints (`Problem.function`). Runs inside the box, standard library only; compares nothing, the
host does that. Whoever runs the program does, in this order:

1. read the whole of stdin as UTF-8 text, before any code of the program runs, and leave it an empty one;
2. keep a copy of descriptor 1 and point 1 (and `sys.stdout`) elsewhere, such as at /dev/null: what the
   program prints is no part of the answer;
3. make the program's module, named `MODULE`, and put it into `sys.modules` under that name (dataclasses and
   pickle look there). It is not `__main__`, so that a solution's own tests under `if __name__ == ...` do not
   run;
4. `prelude(module.__dict__)`, then execute the program in that dict;
5. `call(module.__dict__, name, text)` and write what it returns to the copy of descriptor 1.

Whatever 4 and 5 raise is the program's failure: print the traceback and exit with 1. `SystemExit` without a
failure status, before there is an answer, ends the test with an empty output, which is a wrong answer.
"""

import bisect
import builtins
import collections
import copy
import datetime
import functools
import heapq
import io
import itertools
import json
import math
import operator
import random
import re
import statistics
import string
import sys
import typing
from types import ModuleType
from typing import Any

MODULE = "solution"
"""`__name__` of the program."""

RECURSION_LIMIT = 50_000
"""What the usual graders of such problems set."""

# In this order: later names replace earlier ones, and `builtins` takes back `pow`, `open` and the like.
_STARRED: tuple[ModuleType, ...] = (string, re, datetime, collections, heapq, bisect, copy, math, random)
_STARRED += (statistics, itertools, functools, operator, io, sys, json, builtins, typing)
_NAMED = tuple(module for module in _STARRED if module not in (builtins, typing))

# The program may replace them in their modules; its answer is still written as JSON.
_loads, _dumps = json.loads, json.dumps


def prelude(namespace: dict[str, Any]) -> None:
    """Put names into a module's dict that such programs take for granted; the program may redefine them.

    As `from MODULE import *` for the modules above, then `import MODULE`.
    """
    for module in _STARRED:
        names = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
        namespace.update((name, getattr(module, name)) for name in names)
    namespace.update((module.__name__, module) for module in _NAMED)
    sys.setrecursionlimit(max(RECURSION_LIMIT, sys.getrecursionlimit()))


def call(namespace: dict[str, Any], name: str, stdin_text: str) -> bytes:
    """Call `Solution().name`, or the plain function `name`, and return its result as JSON.

    Args:
        namespace: the dict of the program's module, after the program was executed.
        name: of the method or function.
        stdin_text: one JSON value a line, each an argument; lines of whitespace are skipped.

    Tuples become lists; integers may have any size. Raises what the function raises; NameError or
    AttributeError when there is no such function; TypeError or ValueError when the result is no JSON value
    (sets, objects, dicts with keys that are not strings, cycles), which never equals an expected one.
    """
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    # Split at "\n" only: JSON strings may hold other line separators as they are.
    arguments = [_loads(line) for line in stdin_text.split("\n") if line.strip()]
    solution = namespace.get("Solution")
    if isinstance(solution, type) and (hasattr(solution, name) or name not in namespace):
        function = getattr(solution(), name)
    elif name in namespace:
        function = namespace[name]
    else:
        raise NameError(f"the program defines neither Solution.{name} nor a function {name}")
    result = function(*arguments)
    text = _dumps(result, separators=(",", ":"))
    if "{" in text:
        _refuse_other_keys(result)
    return text.encode("ascii")


def _refuse_other_keys(result: Any) -> None:
    """`json` writes the key 1 as "1"; but {1: 2} is not the expected {"1": 2}."""
    left = [result]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise TypeError("the result has a dict with keys that are not strings")
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
