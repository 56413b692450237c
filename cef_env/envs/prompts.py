"""From a problem to the messages that a model reads.

    messages(problem)                       `plain`: statement, then how to answer, in one user message
    messages(problem, "livecodebench")      the form of LiveCodeBench: system, question, format, answer
    messages(problem, "my_prompt.j2")       a jinja2 template of your own

A template is given `problem` (a `Problem`: its tests and programs are not to be shown), `samples` (the tests
that are), `starter` (code to complete, or None) and `instruction`. What it renders is the user message, and
`{% set system = "..." %}` adds a system message. The form of LiveCodeBench is followed in structure, not in
wording. Does not run models and does not read answers (`text.py`).
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from cef_env.envs.text import INSTRUCTION, statement_text
from cef_env.errors import UserError
from cef_env.problems.types import Problem

Message = dict[str, str]
PROMPTS = ("plain", "livecodebench")

_SYSTEM = (
    "You are a skilled Python programmer. Given the description of a problem, you write a correct and "
    "efficient Python program for it that passes all tests."
)
_STDIN_FORMAT = (
    "The program reads its input from stdin and writes its answer to stdout. Do not run it on the samples. "
    "Put it between the delimiters below; what they hold is executed as it stands."
)
_STARTER_FORMAT = "Complete the starter code below, and put the complete code between the delimiters."


def messages(problem: Problem, prompt: str = "plain") -> list[Message]:
    """What a model is asked: `prompt` is one of `PROMPTS` or the path of a jinja2 template."""
    if prompt == "plain":
        return [_message("user", statement_text(question(problem)))]
    if prompt == "livecodebench":
        return [_message("system", _SYSTEM), _message("user", _livecodebench(problem))]
    system, user = _rendered(problem, prompt)
    return [*([_message("system", system)] if system else []), _message("user", user)]


def prompt_text(problem: Problem, prompt: str = "plain") -> str:
    """The same as one text, for observations."""
    return "\n\n".join(message["content"] for message in messages(problem, prompt))


def require_prompt(prompt: str) -> str:
    """`prompt`, when it is known or a template that can be read; else `UserError`."""
    if not isinstance(prompt, str):
        raise UserError(f"prompt={prompt!r}: use {', '.join(PROMPTS)} or the path of a template file, a str")
    if prompt not in PROMPTS:
        _template(prompt)
    return prompt


def starter(problem: Problem) -> str | None:
    """Where a function has to be written: the starter code, or one like it; None for a program."""
    if problem.starter_code and problem.starter_code.strip():
        return problem.starter_code.rstrip()
    if problem.function is None:
        return None
    return f"class Solution:\n    def {problem.function}(self, ...):\n        ..."


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def question(problem: Problem) -> str:
    """What is to be solved: the statement, and the code to complete where there is some."""
    code = starter(problem)
    if code is None:
        return problem.statement.rstrip()
    return f"{problem.statement.rstrip()}\n\nComplete this code:\n```python\n{code}\n```"


def _livecodebench(problem: Problem) -> str:
    code = starter(problem)
    form, body = (_STDIN_FORMAT, "# YOUR CODE HERE") if code is None else (_STARTER_FORMAT, code)
    return (
        f"### Question:\n{problem.statement.rstrip()}\n\n"
        f"### Format: {form}\n```python\n{body}\n```\n\n"
        "### Answer: (in the format above, with backticks)\n\n"
    )


@lru_cache(maxsize=8)
def _template(path: str) -> Any:
    try:
        from jinja2 import StrictUndefined, TemplateError
        from jinja2.sandbox import SandboxedEnvironment
    except ImportError as error:
        raise UserError(f'prompt {path!r}: templates need jinja2; pip install "cef-env[problems]"') from error
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"prompt {path!r}: use {', '.join(PROMPTS)} or a template file ({error})") from error
    try:
        return SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(text)
    except TemplateError as error:
        raise UserError(f"prompt {path!r}: {_line(error)}") from error


def _rendered(problem: Problem, path: str) -> tuple[str, str]:
    """System message (may be empty) and user message of a template."""
    samples = [test for test in problem.tests if test.sample]
    template = _template(path)
    try:
        module = template.make_module(
            {
                "problem": problem,
                "samples": samples,
                "starter": starter(problem),
                "instruction": INSTRUCTION,
            }
        )
        return str(getattr(module, "system", "")), str(module)
    except Exception as error:
        raise UserError(f"prompt {path!r}: {_line(error)}") from error


def _line(error: Exception) -> str:
    number = getattr(error, "lineno", None)
    return (f"line {number}: " if number else "") + " ".join(str(error).split())
