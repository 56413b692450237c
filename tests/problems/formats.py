"""Small files with the fields and encodings of the real data sets, written by hand."""

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

STATEMENT = "Read an integer n from standard input and print twice its value."


def packed(tests: list[dict[str, str]]) -> str:
    """Hidden tests as `code_generation_lite` holds them."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode("ascii")


def stdin_tests(*numbers: int) -> list[dict[str, str]]:
    return [{"input": f"{n}\n", "output": f"{2 * n}\n", "testtype": "stdin"} for n in numbers]


def lcb(id_: str = "abc1", **changes: Any) -> dict[str, Any]:
    """A line of LiveCodeBench."""
    return {
        "question_title": "Double",
        "question_content": STATEMENT,
        "platform": "atcoder",
        "question_id": id_,
        "contest_id": "abc",
        "contest_date": "2024-08-15T00:00:00",
        "starter_code": "",
        "difficulty": "hard",
        "public_test_cases": json.dumps(stdin_tests(3)),
        "private_test_cases": packed(stdin_tests(4, 10**40)),
        "metadata": "{}",
    } | changes


def lcb_functional(id_: str = "3001") -> dict[str, Any]:
    tests = [
        {"input": '"ab"\n[1, 2]', "output": "3", "testtype": "functional"},
        {"input": '""\n[]', "output": "0", "testtype": "functional"},
    ]
    return lcb(
        id_,
        platform="leetcode",
        difficulty="easy",
        contest_date="2023-06-01T00:00:00",
        starter_code="class Solution:\n    def total(self, s: str, nums: List[int]) -> int:\n        ",
        public_test_cases=json.dumps(tests[:1]),
        private_test_cases=packed(tests[1:]),
        metadata=json.dumps({"func_name": "total"}),
    )


CHECKER = """\
#include "testlib.h"
int main(int argc, char** argv) {
    registerTestlibCmd(argc, argv);
    if (ouf.readLong() != ans.readLong()) quitf(_wa, "differs");
    quitf(_ok, "fine");
}
"""
DOUBLE_PY = "print(2 * int(input()))\n"
DOUBLE_CPP = "#include <iostream>\nint main() { long long n; std::cin >> n; std::cout << 2 * n << '\\n'; }\n"
WRONG_PY = "print(3 * int(input()))\n"
LOOP_PY = "n = int(input())\nwhile n > 5:\n    pass\nprint(2 * n)\n"
CRASH_CPP = "#include <cstdlib>\nint main() { std::abort(); }\n"


def codecontests_plus(id_: str = "1005_A", **changes: Any) -> dict[str, Any]:
    """A row of CodeContests+."""
    return {
        "source": "Codeforces",
        "id": id_,
        "title": "Double",
        "description": STATEMENT,
        "time_limit": 1000,
        "memory_limit": 256,
        "validator": "int main() {}",
        "generator": "int main() {}",
        "generator_cmd": "./gen 1\n./gen 2",
        "checker": CHECKER,
        "correct_submissions": [
            {"code": DOUBLE_PY, "language": "py3"},
            {"code": DOUBLE_CPP, "language": "cpp"},
            {"code": "class Main {}", "language": "java"},
        ],
        "incorrect_submissions": [{"code": WRONG_PY, "language": "py3"}],
        "test_cases": [{"input": "4\n", "output": "8\n"}, {"input": "40\n" + " " * 200, "output": "80\n"}],
    } | changes


def codecontests(name: str = "1575_A. Double", **changes: Any) -> dict[str, Any]:
    """A row of deepmind/code_contests."""
    return {
        "name": name,
        "description": STATEMENT,
        "public_tests": {"input": ["3\n"], "output": ["6\n"]},
        "private_tests": {"input": ["4\n"], "output": ["8\n"]},
        "generated_tests": {"input": ["5" * 30], "output": [str(2 * int("5" * 30))]},
        "source": 2,
        "difficulty": 8,
        "solutions": {"language": [1, 2, 3], "solution": ["print 1", DOUBLE_CPP, DOUBLE_PY]},
        "incorrect_solutions": {"language": [3], "solution": [WRONG_PY]},
        "cf_contest_id": 1575,
        "cf_index": "A",
        "cf_rating": 800,
        "cf_tags": ["math", ""],
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 512 * 1024 * 1024,
        "input_file": "",
        "output_file": "",
    } | changes


def apps(id_: int = 7, **changes: Any) -> dict[str, Any]:
    """A line of APPS."""
    return {
        "problem_id": id_,
        "question": STATEMENT,
        "solutions": json.dumps([DOUBLE_PY]),
        "input_output": json.dumps({"inputs": ["3\n", ["4"]], "outputs": ["6\n", ["8"]]}),
        "difficulty": "introductory",
        "url": "https://example.org/7",
        "starter_code": "",
    } | changes


def taco(**changes: Any) -> dict[str, Any]:
    """A row of TACO: every field is a text."""
    names = ("raw_tags", "source", "tags", "skill_types", "url", "date", "picture_num")
    fields = dict.fromkeys(names, "")
    return (
        fields
        | {
            "question": STATEMENT,
            "solutions": json.dumps([DOUBLE_PY]),
            "starter_code": "",
            "input_output": json.dumps({"inputs": ["3\n"], "outputs": ["6\n"]}),
            "difficulty": "VERY_HARD",
            "name": None,
            "time_limit": "2.0 seconds",
            "memory_limit": "512.0 megabytes",
        }
        | changes
    )


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_parquet(path: Path, records: list[dict[str, Any]], row_group_size: int = 2) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(records), path, row_group_size=row_group_size)
    return path


def write_arrow(path: Path, records: list[dict[str, Any]]) -> Path:
    """As the `datasets` library keeps them: the stream format."""
    import pyarrow as pa

    table = pa.Table.from_pylist(records)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    return path


VALIDATOR_PY = """\
import sys
expected = open(sys.argv[2]).read().split()
sys.exit(42 if sys.stdin.read().split() == expected else 43)
"""

LEGACY_YAML = """\
name: Double
source: A Contest 2023
license: cc by-sa
validation: default
validator_flags: case_sensitive
limits:
  memory: 512
"""
MODERN_YAML = """\
problem_format_version: 2025-09
type: pass-fail
name:
  en: Double It
  sv: Dubbla
uuid: 12345678-1234-1234-1234-123456789012
limits:
  time_limit: 1.0
  memory: 256
constants:
  most: 1000
"""


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


_PROGRAMS = {
    "submissions/accepted/double.py": DOUBLE_PY,
    "submissions/accepted/double.cpp": DOUBLE_CPP,
    "submissions/wrong_answer/triple.py": WRONG_PY,
    "submissions/time_limit_exceeded/loop.py": LOOP_PY,
    "submissions/run_time_error/crash.cpp": CRASH_CPP,
}
_DATA = {
    "data/sample/1.in": "3\n",
    "data/sample/1.ans": "6\n",
    "data/secret/1-small.in": "5\n",
    "data/secret/1-small.ans": "10\n",
    "data/secret/2-big.in": "123456789012\n",
    "data/secret/2-big.ans": "246913578024\n",
}


def legacy_package(root: Path, files: dict[str, str] | None = None) -> Path:
    """A package of the legacy form, with programs in Python and C++ for every folder."""
    base = {
        "problem.yaml": LEGACY_YAML,
        ".timelimit": "1\n",
        "problem_statement/problem.en.tex": f"\\problemname{{Double}}\n{STATEMENT}\n",
        "submissions/accepted/Double.java": "class Double {}",
    }
    return tree(root, base | _DATA | _PROGRAMS | (files or {}))


def modern_package(root: Path, files: dict[str, str] | None = None) -> Path:
    """A package of 2025-09 with expectations in submissions.yaml."""
    base = {
        "problem.yaml": MODERN_YAML,
        "statement/problem.en.md": f"{STATEMENT} It is at most {{{{most}}}}.\n\n{{{{remainingsamples}}}}\n",
        "statement/problem.sv.md": "Dubbla talet.",
        "data/secret/test_group.yaml": "output_validator_args: []\n",
        "submissions/mixed/slow_or_wrong.py": LOOP_PY.replace("2 * n)", "7)"),
        "submissions/submissions.yaml": "mixed/*:\n  permitted: [AC, WA, TLE]\n  required: [TLE]\n"
        "accepted/{double,other}.py:\n  language: python3\n  authors: Somebody\n",
    }
    return tree(root, base | _DATA | _PROGRAMS | (files or {}))
