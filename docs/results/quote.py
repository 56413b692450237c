"""Puts the results of the committed study into README.md and docs/results/index.md, between their markers.

    cef report runs/full --out docs/results      # claims.json, claims.md, manifest.json, the page and figures
    python docs/results/quote.py                 # writes; a test checks that nothing was left to write

Does not compute: every number is one of claims.json.
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BEGIN, END = "<!-- results -->", "<!-- /results -->"
WORDS = {True: "held", False: "**did not hold**", None: "undecided"}


SPLIT = "hard"
"""What the paper's headline is about."""


LEADING = {
    "a": "optimization failures, high - low",
    "b": "solve rate, high - low",
    "e": "format errors added at alpha 3",
    "f": "optimization failures, high - low",
    "g": "optimization failures, high - low",
    "h": "solved by alpha -0.5 only",
    "i": "ensemble - single",
}
"""Start of the name of the number that is quoted, where it is not the first; fixed with the claims."""


def summary(found: dict[str, Any]) -> str:
    """One row per claim: its verdict, and for each cell the number that says most."""
    lines = ["| claim of the paper | here | measured, with 95% interval |", "|---|---|---|"]
    for claim in found["splits"][SPLIT]["claims"]:
        first: dict[str, dict[str, Any]] = {}
        for row in claim["rows"]:
            if row["name"].startswith(LEADING.get(claim["letter"], "")):
                first.setdefault(row["cell"], row)
        names = {row["name"] for row in first.values()}
        numbers = "; ".join(f"{cell} {number(row)}" for cell, row in first.items())
        measured = f"{min(names)}: {numbers}" if len(names) == 1 else numbers
        measured = claim["reason"] or measured
        lines.append(f"| {claim['title']} | {WORDS[claim['held']]} | {measured} |")
    return "\n".join(lines)


def runs(found: dict[str, Any]) -> str:
    """What was run, in a sentence."""
    parts = [
        f"{name} ({cell['parameters'] / 1e6:.1f}M parameters, {len(cell['seeds'])} seeds, "
        f"{cell['problems']} hard problems x {cell['answers']} answers)"
        for name, cell in found["splits"][SPLIT]["cells"].items()
    ]
    missing = f" Not run yet: {_missing(found['missing'])}." if found["missing"] else ""
    return f"Study `{found['study']}`: {'; '.join(parts)}.{missing}"


def _missing(runs: list[str]) -> str:
    """`tool-use/seed-1`, ... cell by cell."""
    by_cell: dict[str, list[str]] = {}
    for run in runs:
        cell, _, seed = run.partition("/seed-")
        by_cell.setdefault(cell, []).append(seed)
    return "; ".join(f"{cell}, seeds {', '.join(seeds)}" for cell, seeds in by_cell.items())


def number(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return "–"
    text = f"{row['value']:+.3f}"
    return text if row["low"] is None else f"{text} [{row['low']:+.3f}, {row['high']:+.3f}]"


def filled(page: str, found: dict[str, Any]) -> str:
    """The page with what stands between the markers made anew."""
    before, _begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{runs(found)}\n\n{summary(found)}\n\n{END}{after}"


PAGES = (ROOT / "README.md", HERE / "index.md")

if __name__ == "__main__":
    claims = json.loads((HERE / "claims.json").read_text())
    for path in PAGES:
        path.write_text(filled(path.read_text(), claims))
