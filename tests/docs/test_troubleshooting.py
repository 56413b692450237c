"""Every message that the troubleshooting page quotes is one that the code still gives."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
QUOTED = re.findall(r"^### (`+)(.+)\1$", PAGE, re.MULTILINE)
FOLDERS = ("cef_env", "agents", "training", "merge", "eval")


def texts(node: ast.AST) -> Iterator[str]:
    """Every text of a module, with `...` where something is inserted."""
    for child in ast.walk(node):
        if isinstance(child, ast.JoinedStr):
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "..." for v in child.values)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value


@pytest.fixture(scope="module")
def said() -> str:
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return "\n".join(text for path in paths for text in texts(ast.parse(path.read_text())))


@pytest.mark.parametrize("message", [message for _, message in QUOTED])
def test_the_quoted_message_occurs_in_the_code(message: str, said: str) -> None:
    fixed = max(message.split("..."), key=len)
    assert len(fixed) >= 12, "too little of it is fixed"
    assert message in said


def test_the_page_quotes_messages_each_with_cause_and_remedy() -> None:
    entries = re.split(r"^### .*$", PAGE, flags=re.MULTILINE)[1:]
    assert len(QUOTED) == len(entries) >= 20
    for (_, message), entry in zip(QUOTED, entries, strict=True):
        assert len(entry.split()) >= 12, message
