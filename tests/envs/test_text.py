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


@given(st.text(alphabet=st.sampled_from("ab`\n =~#"), max_size=60))
def test_fenced_is_inverted_by_extraction(program: str) -> None:
    extracted = extract_program(fenced(program))
    assert extracted is not None
    assert extracted.rstrip() == program.rstrip()
