"""The code blocks of a page, and what each is for. Runs nothing: see `test_pages.py`.

    ```python                 run, with those of the same page before it, in one namespace
    ```bash                   run in the same folder
    ```python title="x.py"    written to the file x.py, which a later block runs or reads
    ```text                   what the block before it prints, `...` standing for anything
    ```yaml                   read

A comment on the line before a block changes that:

    <!-- needs: vllm (make test-vllm) -->    not run but read: what is missing here, and what covers it
    <!-- in the test: `420` => `10` -->      run with this replaced; FOLDER there is the folder of the test
    <!-- measured -->                        of a text: what was printed once; not compared

An indented block is text; lines of it that begin with `cef ` must be commands that exist.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
LANGUAGES = ("python", "bash", "text", "yaml", "")
UNMARKED = {
    "docs/results/index.md": "hours (tests/test_study.py)",
}
"""Pages without comments of their own, and why none of their blocks is run here."""


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: str
    line: int
    """Of its first line, from 1."""
    language: str
    """One of `LANGUAGES`; empty for an indented block."""
    text: str
    title: str = ""
    """Name of the file that it is."""
    needs: str = ""
    """What is missing here to run it; empty when it is run."""
    replaced: tuple[tuple[str, str], ...] = ()
    """What the test runs instead of what."""
    measured: bool = False

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def tested(self) -> str:
        """The text as the test runs it."""
        text = self.text
        for old, new in self.replaced:
            assert old in text, f"{self.place}: {old!r} is not in the block"
            text = text.replace(old, new)
        return text


def blocks(path: Path) -> list[Block]:
    """All blocks of a page in order; an assertion names a block that is not understood."""
    page = str(path.relative_to(ROOT))
    found = []
    comments: list[str] = []
    for token in MarkdownIt().parse(path.read_text()):
        if token.type == "html_block":
            comments = [*comments, *re.findall(r"<!--\s*(.*?)\s*-->", token.content, re.DOTALL)]
        elif token.type in ("fence", "code_block") and token.map is not None:
            line = token.map[0] + (2 if token.type == "fence" else 1)
            language, _, rest = token.info.partition(" ")
            place = f"{page}:{line}"
            fenced = token.type == "fence"
            assert bool(language) == fenced, f"{place}: a fenced block needs a language"
            assert language in LANGUAGES, f"{place}: language {language!r}"
            title = re.fullmatch(r'(?:title="([\w./-]+)")?', rest)
            assert title is not None, f"{place}: {rest!r} is not understood"
            needs, replaced, measured = UNMARKED.get(page, ""), [], False
            for comment in comments:
                name, _, value = comment.partition(":")
                if name == "needs":
                    needs = value.strip()
                elif name == "in the test":
                    pairs = re.findall(r"`([^`]+)` => `([^`]*)`", value)
                    assert pairs, f"{place}: {comment!r} replaces nothing"
                    replaced += pairs
                elif name == "measured":
                    measured = True
                else:
                    raise AssertionError(f"{place}: comment {comment!r} is not understood")
            found.append(
                Block(page, line, language, token.content, title[1] or "", needs, tuple(replaced), measured)
            )
            comments = []
        else:
            comments = []
    return found
