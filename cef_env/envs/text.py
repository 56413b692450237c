"""Between problems and text: what the solver reads, and how its program is found in an answer.

Does not run anything. The rules for answers are those of the single-turn and tool-use settings: the
final answer is the last fenced code block of the message.
"""

import re

INSTRUCTION = "Answer with one Python program in a fenced code block."

_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*([^\s`~]*)[^\n]*$", re.MULTILINE)


class CutText(str):
    """An answer that ran out of its token budget; otherwise an ordinary string.

    Agents return it so that an answer without a program can be told apart: out of tokens, or no code.
    """

    __slots__ = ()


def statement_text(statement: str) -> str:
    """The first message of a single-turn episode: the statement, then how to answer."""
    return f"{statement.rstrip()}\n{INSTRUCTION}\n"


def extract_program(answer: str) -> str | None:
    """The content of the last closed fenced code block, or None.

    A fence is a line that starts with three or more backticks (or tildes); it closes with a line of
    at least as many of the same sign and nothing else. A block that is never closed holds no program:
    the answer was cut, or its writer did not finish.
    """
    program, opened, start = None, None, 0
    for fence in _FENCE.finditer(answer):
        mark, language = fence.group(1), fence.group(2)
        if opened is None:
            opened, start = mark, fence.end() + 1
        elif mark[0] == opened[0] and len(mark) >= len(opened) and not language:
            program, opened = answer[start : fence.start()], None
    return program


def fenced(program: str) -> str:
    """The answer that holds `program`: the inverse of `extract_program`."""
    longest = max((len(run) for run in re.findall(r"^`{3,}", program, re.MULTILINE)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}python\n{program.rstrip()}\n{fence}"
