"""Every colour of figures and pages, once for light paper and once for dark.

Text has a contrast of at least 4.5 against what it stands on, marks at least 3; the four outcomes stay apart
for readers with protanopia, deuteranopia or tritanopia (tests measure both). One accent, vermilion, means
extrapolated wherever it appears. Figures are drawn in the light colours; `themed` turns these into the page's
CSS variables, so that one drawing serves both.
"""

from cef_env.judge.types import Outcome

PALETTE = {
    "paper": ("#fbfaf6", "#14171b"),
    "panel": ("#f1efe8", "#1d2127"),
    "line": ("#d8d5ca", "#363c45"),
    "ink": ("#15191e", "#e9e7e0"),
    "soft": ("#575d66", "#a4abb5"),
    "accent": ("#b83a14", "#ff7f57"),
    "correct": ("#0d5a38", "#35c29a"),
    "optimization": ("#c77b0e", "#f2bd4e"),
    "correctness": ("#5b89d2", "#6f80e0"),
    "format": ("#81868f", "#6b737d"),
    "run-1": ("#15191e", "#e9e7e0"),
    "run-2": ("#b0560c", "#f0a24e"),
    "run-3": ("#2f73b8", "#6fb3f2"),
    "run-4": ("#8a3a86", "#d98ad6"),
    "run-5": ("#4c7a1c", "#9bcf63"),
    "run-6": ("#6d727b", "#9aa0aa"),
    "yes": ("#05673f", "#4fd3a8"),
    "no": ("#9c3010", "#ff9673"),
    "code-word": ("#34469a", "#a3b0ff"),
    "code-text": ("#05683f", "#7cd9b6"),
    "code-number": ("#8a4b00", "#f2bd4e"),
}
"""Name of the CSS variable -> (light, dark)."""
TEXT = ("ink", "soft", "accent", "yes", "no", "code-word", "code-text", "code-number")
"""Colours that text may have."""
GROUNDS = ("paper", "panel")
"""Colours that text may stand on."""

RUNS = tuple(name for name in PALETTE if name.startswith("run-"))
"""Colours of runs that are compared; marks tell them apart, too."""
NAMES = {
    Outcome.CORRECT: "correct",
    Outcome.OPTIMIZATION_FAILURE: "optimization",
    Outcome.CORRECTNESS_FAILURE: "correctness",
    Outcome.FORMAT_ERROR: "format",
}
COLOURS = {outcome: PALETTE[name][0] for outcome, name in NAMES.items()}
INK, PAPER, SOFT = (PALETTE[name][0] for name in ("ink", "paper", "soft"))
EXTRAPOLATED = PALETTE["accent"][0]


def css() -> str:
    """The variables: light, dark where the system says so, and either where the reader chose."""
    light, dark = ("".join(f"--{n}:{c[i]};" for n, c in PALETTE.items()) for i in (0, 1))
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n"
        f"@media screen{{:root[data-theme=light]{{color-scheme:light;{light}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}}}"
    )


def themed(svg: str) -> str:
    """`svg` with the light colours replaced by the variables that hold them."""
    for name in ("paper", "ink", "soft", "accent", *NAMES.values(), *RUNS[1:]):
        svg = svg.replace(PALETTE[name][0], f"var(--{name})")
    return svg
