"""Running the suite's own programs in this process, to make expected outputs.

Only for trusted programs that this package wrote: there is no isolation and no limit. Answers of a
model go through `cef_env.judge`.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

Run = Callable[[str], str]


@lru_cache(maxsize=512)
def compiled(program: str) -> Run:
    """A function from standard input to standard output of `program`.

    The program becomes the body of a function: its variables are then local and it runs nearly twice
    as fast as at module level. Whatever it raises is the caller's.
    """
    body = "".join(f" {line}\n" for line in program.splitlines())
    namespace: dict[str, Any] = {}
    exec(compile(f"def main(input,print):\n{body}", "<builtin>", "exec"), namespace)
    main = namespace["main"]

    def run(text: str) -> str:
        lines: Iterator[str] = iter(text.splitlines())
        printed: list[str] = []
        main(lines.__next__, lambda *values: printed.append(" ".join(map(str, values)) + "\n"))
        return "".join(printed)

    return run


def exposes(program: str, text: str, expected: str) -> bool:
    """Whether `program` fails on this input: wrong output or an exception."""
    try:
        return compiled(program)(text) != expected
    except Exception:  # noqa: BLE001 - any exception of a deliberately wrong program is the finding
        return True
