"""Between problems and text: what the solver reads, and how its program is found in an answer.

Does not run anything. The rules for answers are those of the single-turn and tool-use settings: the
final answer is the last fenced code block of the message.
"""

import re

INSTRUCTION = "Answer with one Python program in a fenced code block."

_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*([^\s`~]*)[^\n]*$", re.MULTILINE)
_THOUGHT = re.compile(r"^[ \t]*</think>", re.MULTILINE)


class CutText(str):
    """An answer that ran out of its token budget; otherwise an ordinary string.

    Agents return it so that an answer without a program can be told apart: out of tokens, or no code.
    """

    __slots__ = ()


def statement_text(statement: str) -> str:
    """The first message of a single-turn episode: the statement, then how to answer."""
    return f"{statement.rstrip()}\n{INSTRUCTION}\n"


def final_part(answer: str) -> str:
    """The answer after its reasoning; empty when the reasoning never ends.

    Reasoning is what stands between `<think>` at the very beginning and the next `</think>`, or before a
    `</think>` at the beginning of a line where the model's template had opened it.
    """
    if answer.lstrip().startswith("<think>"):
        return answer.partition("</think>")[2]
    ends = _THOUGHT.split(answer, maxsplit=1)
    return ends[1] if len(ends) > 1 else answer


def extract_program(answer: str) -> str | None:
    """The content of the last closed fenced code block after the reasoning, or None.

    A fence is a line that starts with three or more backticks (or tildes); it closes with a line of
    at least as many of the same sign and nothing else. A block that is never closed holds no program:
    the answer was cut, or its writer did not finish.
    """
    program, opened, start = None, None, 0
    answer = final_part(answer)
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
