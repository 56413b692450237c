"""The warm interpreter inside the box: one runner per program, one confined child per test.

Runs *inside* a box, alone, as `python -S -s -P -B -m inside.zygote FD`. Its processes, of which the first
two are each the pid 1 of a pid namespace:

    zygote (whole life of the box)
      runner (one program: own pid and mount namespaces; compiles, mounts, watches, kills, reaps)
        test (one test: own uid, no capabilities, seccomp, limits, fresh tmpfs; runs the program)

It parses messages of the host only (see `protocol.py`) and never sees an expected output.
"""

import _thread
import bisect
import collections
import copy
import datetime
import decimal
import fractions
import functools
import gc
import heapq
import importlib
import itertools
import json
import math
import operator
import os
import random
import re
import signal
import socket
import statistics
import string
import sys
import typing
from types import ModuleType

from . import kernel, protocol
from .program import ExitBuiltin
from .runner import Runner, receive, run_in_namespaces

# Programs import these most; a fork inherits them warm.
PRELOADED: tuple[ModuleType, ...] = (
    bisect,
    collections,
    copy,
    datetime,
    decimal,
    fractions,
    functools,
    heapq,
    itertools,
    math,
)
PRELOADED += (operator, random, re, statistics, string, typing)


def main() -> None:
    kernel.large_main_stack()
    sys.path.remove(os.environ.pop("PYTHONPATH"))  # programs see a plain interpreter
    kernel.undumpable()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a pid 1 without handlers ignores its namespace's signals
    builtins = sys.modules["builtins"]
    builtins.exit, builtins.quit = ExitBuiltin("exit"), ExitBuiltin("quit")  # type: ignore[attr-defined]
    conn = socket.socket(fileno=int(sys.argv[1]))
    message, cgroup = receive(conn)
    config = json.loads(message[1:])
    sys.path += config["site"]
    for name in config["packages"]:
        importlib.import_module(name)
    conn.send(protocol.READY)
    _thread.stack_size(0)
    gc.collect()
    gc.freeze()  # a collection in a child must not touch, and so copy, the pages of the zygote
    while True:
        message, fds = receive(conn)
        if message[:1] != b"P":
            return
        status = run_in_namespaces(lambda: Runner(conn, config, cgroup, message[1:], fds))  # noqa: B023
        for fd in fds:
            os.close(fd)
        if status != 0:
            sys.exit("the runner died")  # the host sees the end of file and knows that there is no verdict


if __name__ == "__main__":
    main()
