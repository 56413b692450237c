"""The warm interpreter inside the box: one runner per program, one confined child per test.

Runs *inside* a box, alone, as `python -S -s -P -B .../inside/start.py FD`. Its processes:

    zygote (whole life of the box)
      runner (one program: compiles, makes folders, watches, kills, reaps; see `isolation.py`)
        test (one test: own uid, no capabilities, seccomp, limits, empty folders; runs the program)

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

from . import isolation, kernel, protocol
from .program import ExitBuiltin
from .runner import Runner, receive, run_apart

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


def connection(name: str) -> socket.socket:
    """The socket to the host: the number of a descriptor, or a path to call, where stderr is got first."""
    if name.isdecimal():
        return socket.socket(fileno=int(name))
    conn = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    conn.connect(name)
    _, fds = receive(conn)
    os.dup2(fds[0], 2)
    os.close(fds[0])
    return conn


def main() -> None:
    kernel.large_main_stack()
    kernel.undumpable()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a pid 1 without handlers ignores its namespace's signals
    builtins = sys.modules["builtins"]
    builtins.exit, builtins.quit = ExitBuiltin("exit"), ExitBuiltin("quit")  # type: ignore[attr-defined]
    conn = connection(sys.argv[1])
    message, cgroup = receive(conn)
    config = json.loads(message[1:])
    ground = isolation.KINDS[config["isolation"]](config)
    ground.enter_box()
    sys.path += config["site"]
    for name in config["packages"]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            conn.send(protocol.MISSING + f"package {name!r} cannot be imported in a box: {error}".encode())
            return
    conn.send(protocol.READY)
    _thread.stack_size(0)
    gc.collect()
    gc.freeze()  # a collection in a child must not touch, and so copy, the pages of the zygote
    while True:
        message, fds = receive(conn)
        if message[:1] != b"P":
            return
        status = run_apart(ground, lambda: Runner(conn, config, ground, cgroup, message[1:], fds))  # noqa: B023
        for fd in fds:
            os.close(fd)
        if status != 0:
            sys.exit("the runner died")  # the host sees the end of file and knows that there is no verdict
