"""The call of a function-style program: arguments in, JSON out."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cef_env.sandbox.inside.functional import MODULE, call, prelude


def answer(program: str, name: str, *arguments: object) -> Any:
    namespace: dict[str, Any] = {"__name__": MODULE}
    prelude(namespace)
    exec(program, namespace)
    return json.loads(call(namespace, name, "\n".join(map(json.dumps, arguments)) + "\n"))


@pytest.fixture(autouse=True)
def _interpreter_settings() -> Any:
    before = sys.getrecursionlimit(), sys.get_int_max_str_digits()
    yield
    sys.setrecursionlimit(before[0])
    sys.set_int_max_str_digits(before[1])


METHOD = "class Solution:\n    def f(self, {}) -> List[int]:\n        return {}"


@pytest.mark.parametrize(
    ("program", "arguments", "expected"),
    [
        (METHOD.format("a, b", "a + b"), ([1], [2]), [1, 2]),
        (METHOD.format("a, b=[7]", "a + b"), ([1],), [1, 7]),
        (METHOD.format("s", "s[::-1]"), ("a\u2028b\u0085\nc",), "c\n\u0085b\u2028a"),
        (METHOD.format("*a", "(a, (1, 2), None, True)"), (), [[], [1, 2], None, True]),
        (METHOD.format("a", "a.sort() or a"), ([3, 1],), [1, 3]),
        (METHOD.format("n", "2 ** n"), (50,), 2**50),
        (METHOD.format("n", "0.1 + n"), (0.2,), 0.1 + 0.2),
        (METHOD.format("n", "n * 10 ** 6000 == int('1' + '0' * 6000)"), (1,), True),
        (METHOD.format("n", "1 if n == 0 else n * self.f(n - 1)"), (5,), 120),
        (METHOD.format("n", "{'a': {'b': [n]}}"), ("\ud800",), {"a": {"b": ["\ud800"]}}),
        ("def f(a, b):\n    return a - b", (5, 3), 2),
        ("f = lambda a: a", (1,), 1),
        ("class Solution:\n    pass\ndef f(a):\n    return a", (1,), 1),
        ("@lru_cache(None)\ndef f(n):\n    return 0 if n == 0 else 1 + f(n - 1)", (3000,), 3000),
        ("def f(n):\n    return pow(n, -1, 7), gcd(4, 6), inf > 1, list(accumulate([1, 2]))", (3,), [5, 2, True, [1, 3]]),
        ("def f(n):\n    h = []\n    heappush(h, n)\n    return heapq.heappop(h), bisect.bisect([1], n)", (1,), [1, 1]),
        ("def f(n):\n    return Counter('aab'), deque([n]).pop(), string.digits[:2]", (1,), [{"a": 2, "b": 1}, 1, "01"]),
        ("def f(n: Optional[List[int]]) -> 'Dict[str, int]':\n    return defaultdict(int)", (None,), {}),
        ("from dataclasses import dataclass\nprint('noise')\ndef f():\n    print('more')\n    return len(combinations('ab', 2).__class__.__name__)", (), 12),
        ("sum = 7\ndef f(heappush):\n    return heappush + sum", (1,), 8),
        ("if __name__ == '__main__':\n    1 / 0\ndef f():\n    return __name__", (), "solution"),
    ],
)  # fmt: skip
def test_answer(program: str, arguments: tuple[object, ...], expected: object) -> None:
    assert answer(program, "f", *arguments) == expected


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ("{1, 2}", TypeError),
        ("{1: 2}", TypeError),
        ("[{'a': ({None: 1},)}]", TypeError),
        ("object()", TypeError),
        ("deque([1])", TypeError),
        ("b'x'", TypeError),
        ("1 // 0", ZeroDivisionError),
        ("exit_", NameError),
        ("[a for a in [[]] if not a.append(a)]", ValueError),
        ("reduce(lambda a, _: [a], range(100000), 0)", RecursionError),
    ],
)
def test_other_results_are_errors_of_the_program(result: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        answer(f"def f():\n    return {result}", "f")


def test_missing_function_and_wrong_arguments() -> None:
    with pytest.raises(NameError, match=r"defines neither Solution\.f nor a function f"):
        answer("x = 1", "f")
    with pytest.raises(AttributeError, match="'Solution' object has no attribute 'f'"):
        answer("class Solution:\n    def g(self): pass", "f")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        answer("def f(a): pass", "f")


def test_the_answer_survives_what_a_program_does_to_json(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "json.dumps = None\ndef f(a):\n    return a"
    namespace: dict[str, Any] = {"__name__": MODULE}
    prelude(namespace)
    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", json.dumps)  # so that it is put back
        exec(program, namespace)
        text = call(namespace, "f", "[1]")
    assert text == b"[1]"


def test_huge_integers_have_no_limit() -> None:
    namespace: dict[str, Any] = {"f": lambda n: n}
    assert call(namespace, "f", "7" * 5000) == b"7" * 5000


def test_it_needs_the_standard_library_only() -> None:
    source = (Path(__file__).parents[2] / "cef_env/sandbox/inside/functional.py").read_text()
    subprocess.run([sys.executable, "-I", "-S", "-c", source], check=True)
