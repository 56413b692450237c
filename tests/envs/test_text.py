"""How a program is found in an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.envs.text import extract_program, fenced


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("```python\nprint(1)\n```", "print(1)\n"),
        ("```\nprint(1)\n```", "print(1)\n"),
        ("Think.\n```py\na\n```\nBetter:\n```python\nb\n```\nDone.", "b\n"),
        ("```python title=x.py\nprint(1)\n```", "print(1)\n"),
        ("~~~python\nprint('```')\n~~~", "print('```')\n"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"),
        ("```python\nprint(1)\n```  ", "print(1)\n"),
        ("```python\n```", ""),
        ("```python\na\n```\n```python\nunfinished", "a\n"),
        ("```python\nprint(1)", None),
        ("no code at all", None),
        ("inline ```print(1)``` only", None),
        ("", None),
    ],
)
def test_the_last_closed_block_is_the_program(answer: str, program: str | None) -> None:
    assert extract_program(answer) == program


REASONED = "```python\nthought\n```"


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        (f"<think>{REASONED}</think>\n```python\nb\n```", "b\n"),
        (f"<think>\n{REASONED}\n</think>\n\nHere:\n```python\nb\n```\n", "b\n"),
        (f"  \n<think>{REASONED}\n", None),
        (f"<think>{REASONED}</think> I could not solve it.", None),
        (f"<think>{REASONED}</think>\n```python\ncut", None),
        (f"{REASONED}\nso\n</think>\n```python\nb\n```", "b\n"),
        (f"{REASONED}\n</think>\nnothing", None),
        ("<think>open\n```\nx\n</think>\n```python\nb\n```", "b\n"),
        ("<think>\n</think>\n```\na\n```\n```py\nb\n```", "b\n"),
        ("```python\nprint('</think>')\n```", "print('</think>')\n"),
        ("```python\nprint('<think>')\n```", "print('<think>')\n"),
        ("Use `<think>` tags.\n```python\na\n```", "a\n"),
        ("```python\r\nprint(1)\r\n```\r\n", "print(1)\r\n"),
        ("### Answer\n```Python3\nprint(1)\n```\n\n**Complexity** O(n)", "print(1)\n"),
        ("```\n5\n3\n```\nThe program:\n```python\nprint(1)\n```\nExample `1`", "print(1)\n"),
        ("```python\nprint(1)\n```\n```", "print(1)\n"),
        ("````markdown\n```python\na\n```\n````", "```python\na\n```\n"),
    ],
)
def test_answers_with_reasoning_and_other_real_ones(answer: str, program: str | None) -> None:
    assert extract_program(answer) == program


@given(st.text(alphabet=st.sampled_from("ab`\n =~#"), max_size=60))
def test_fenced_is_inverted_by_extraction(program: str) -> None:
    extracted = extract_program(fenced(program))
    assert extracted is not None
    assert extracted.rstrip() == program.rstrip()
