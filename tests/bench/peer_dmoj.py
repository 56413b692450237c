"""Tests per second of the executor of DMOJ's judge; runs in a virtual environment with `pip install dmoj`.

    python tests/bench/peer_dmoj.py PROGRAM_FILE... < inputs.json     prints the seconds it took

Standard input: a JSON list, for each program the list of its [input, output] pairs. Started by
bench_judge.py when CEF_DMOJ_PYTHON names the interpreter of that environment.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from dmoj import judgeenv  # type: ignore[import-not-found]

judgeenv.env["runtime"] = {"python3": os.path.realpath(sys.executable)}
judgeenv.env["tempdir"] = tempfile.gettempdir()

from dmoj.executors.PY3 import Executor  # type: ignore[import-not-found]  # noqa: E402 - reads the above

tests = json.load(sys.stdin)
start = time.perf_counter()
for path, cases in zip(sys.argv[1:], tests):
    with open(path, "rb") as file:
        executor = Executor("bench", file.read())
    for given, expected in cases:
        pipe = subprocess.PIPE
        process = executor.launch(time=10, memory=262144, stdin=pipe, stdout=pipe, stderr=pipe)
        printed, complaint = process.communicate(given.encode())
        assert printed.split() == expected.encode().split(), complaint
print(time.perf_counter() - start)
