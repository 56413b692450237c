"""What README and the page of results say is what the committed study found."""

import json
import runpy
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "docs" / "results"
QUOTE = runpy.run_path(str(RESULTS / "quote.py"))
FOUND = json.loads((RESULTS / "claims.json").read_text())


@pytest.mark.parametrize("page", QUOTE["PAGES"], ids=lambda page: page.name)
def test_a_page_quotes_the_results_that_are_there(page: Path) -> None:
    text = page.read_text()
    assert QUOTE["filled"](text, FOUND) == text, "run python docs/results/quote.py"


def test_every_claim_and_every_number_is_quoted_as_it_is() -> None:
    table = QUOTE["summary"](FOUND)
    claims = FOUND["splits"]["hard"]["claims"]
    assert [claim["letter"] for claim in claims] == list("abcdefghijk")
    for line, claim in zip(table.splitlines()[2:], claims, strict=True):
        _, title, here, measured, _ = line.split("|")
        assert title.strip() == claim["title"]
        assert (
            here.strip().strip("*") == {True: "held", False: "did not hold", None: "undecided"}[claim["held"]]
        )
        values = [row["value"] for row in claim["rows"] if f"{row['value'] or 0:+.3f}" in measured]
        assert values or (claim["reason"] and claim["reason"] in measured)


def test_the_files_that_are_named_are_there() -> None:
    for name in ("claims.md", "report.html", "manifest.json", "figures/hard-frontiers.png"):
        assert (RESULTS / name).is_file(), name
    page = (RESULTS / "report.html").read_text()
    assert 'src="http' not in page
    manifest = json.loads((RESULTS / "manifest.json").read_text())
    assert manifest["missing"] == FOUND["missing"]
