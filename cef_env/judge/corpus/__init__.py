"""Programs whose verdict is known: what the judge is tested with, here and on the user's own machine.

Data only, one module per theme, all written for this project. Does not run anything: `cef_env.judge.selftest`
replays it, and `cef doctor` shows what came out.

    from cef_env.judge.corpus import CORPUS
"""

from cef_env.judge.corpus import comparisons, cpp, failures, idioms_io, idioms_language, near_limits, traps
from cef_env.judge.corpus.labelled import COMPILE_ERROR, Labelled

CORPUS: tuple[Labelled, ...] = (
    *idioms_io.PROGRAMS,
    *idioms_language.PROGRAMS,
    *failures.PROGRAMS,
    *near_limits.PROGRAMS,
    *traps.PROGRAMS,
    *cpp.PROGRAMS,
    *comparisons.PROGRAMS,
)
"""Every labelled program; names are unique."""

__all__ = ["COMPILE_ERROR", "CORPUS", "Labelled"]
