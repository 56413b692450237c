"""Names of programming languages in data sets, and the ones that can be judged here."""

from collections import Counter
from collections.abc import Iterable

from cef_env.problems.types import Submission

KNOWN = {
    "python": "python",
    "python3": "python",
    "py3": "python",
    "pypy3": "python",
    "cpp": "cpp17",
    "c++": "cpp17",
    "cpp11": "cpp17",
    "cpp14": "cpp17",
    "cpp17": "cpp17",
    "c++17": "cpp17",
    "cpp20": "cpp20",
    "c++20": "cpp20",
}
"""Name in a data set, in lower case -> value of `cef_env.judge.Language`."""

MAX_SUBMISSIONS = 20
"""Programs kept of each kind: some problems carry thousands."""


def kept(
    programs: Iterable[tuple[str, str]], kind: str, expected: tuple[str, ...], notes: Counter[str]
) -> list[Submission]:
    """The first programs in languages that can be judged; the others are counted in `notes`.

    Args:
        programs: (language, source) pairs.
    """
    found: list[Submission] = []
    for language, program in programs:
        known = KNOWN.get(language.lower().replace(" ", ""))
        if known is None:
            notes[f"submissions in {printable(language.lower())}"] += 1
        elif len(found) < MAX_SUBMISSIONS:
            found.append(Submission(kind, program, expected, known))
        else:
            notes[f"submissions beyond the first {MAX_SUBMISSIONS} of a kind"] += 1
    return found


def printable(text: str) -> str:
    """A short text of a data set, safe to print."""
    return "".join(c if c.isprintable() else "?" for c in text[:40])


CORRECT = ("correct",)
INCORRECT = ("optimization_failure", "correctness_failure")
"""What a submission that a contest rejected may be."""
