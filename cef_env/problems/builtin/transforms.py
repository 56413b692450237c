"""Element transforms and output rules: the other two ingredients of a composition.

Each is one sentence of the statement and one or two lines of the program, with a constant from a small
stock so that the lines recur. Does not decide which family takes which transform (see `compose.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

CONSTANTS = (2, 3, 5, 7)
MODULI = (11, 13, 17, 19)
ANSWER_MODULI = (89, 97, 101, 103)


@dataclass(frozen=True, slots=True)
class Transform:
    """One way to change the array before the task."""

    id: str
    """Kind plus constant, e.g. `mul3`; part of a composition's id."""
    kind: str
    text: str
    """Sentence without its first word, which is `First` or `Then`."""
    code: str
    apply: Callable[[list[int]], list[int]]
    """The same in Python, for choosing `k` from the array that the task sees."""


@dataclass(frozen=True, slots=True)
class OutputRule:
    """What is printed of the answer `s`."""

    id: str
    text: str
    code: str


def _element(kind: str, c: int, text: str, expression: str, apply: Callable[[int], int]) -> Transform:
    code = f"a=[{expression} for x in a]\n"
    return Transform(f"{kind}{c}", kind, text, code, lambda a: [apply(x) for x in a])


def _with_constant(c: int) -> list[Transform]:
    return [
        _element("mul", c, f"replace each a[i] by a[i]*{c}.", f"x*{c}", lambda x: x * c),
        _element("add", c, f"replace each a[i] by a[i]+{c}.", f"x+{c}", lambda x: x + c),
        _element("div", c, f"replace each a[i] by a[i]/{c} rounded down.", f"x//{c}", lambda x: x // c),
        _element("abs", c, f"replace each a[i] by |a[i]-{c}|.", f"abs(x-{c})", lambda x: abs(x - c)),
        Transform(
            f"rot{c}",
            "rot",
            f"move the first min(n,{c}) elements of a to its end.",
            f"a=a[{c}:]+a[:{c}]\n",
            lambda a: a[c:] + a[:c],
        ),
    ]


def _modulo(c: int) -> Transform:
    text = f"replace each a[i] by a[i] modulo {c} (0 to {c - 1})."
    return _element("mod", c, text, f"x%{c}", lambda x: x % c)


def _plain() -> list[Transform]:
    return [
        Transform(
            "neg", "neg", "replace each a[i] by -a[i].", "a=[-x for x in a]\n", lambda a: [-x for x in a]
        ),
        Transform("rev", "rev", "reverse a.", "a=a[::-1]\n", lambda a: a[::-1]),
        Transform("sort", "sort", "sort a in ascending order.", "a.sort()\n", sorted),
        Transform(
            "prefix",
            "prefix",
            "replace each a[i] by a[0]+...+a[i].",
            "for i in range(1,n):\n a[i]+=a[i-1]\n",
            lambda a: list(accumulate(a)),
        ),
        Transform(
            "diff",
            "diff",
            "replace each a[i] by a[i]-a[i-1], where a[-1] is the last element.",
            "a=[a[i]-a[i-1] for i in range(n)]\n",
            lambda a: [a[i] - a[i - 1] for i in range(len(a))],
        ),
    ]


def _transforms() -> list[Transform]:
    made = [transform for c in CONSTANTS for transform in _with_constant(c)]
    return made + [_modulo(c) for c in MODULI] + _plain()


def _output_rules() -> list[OutputRule]:
    made = [OutputRule("plain", "Print the answer.", "print(s)\n")]
    for c in CONSTANTS:
        made += [
            OutputRule(f"plus{c}", f"Print the answer plus {c}.", f"print(s+{c})\n"),
            OutputRule(f"times{c}", f"Print the answer times {c}.", f"print(s*{c})\n"),
        ]
    for c in ANSWER_MODULI:
        made.append(OutputRule(f"mod{c}", f"Print the answer modulo {c} (0 to {c - 1}).", f"print(s%{c})\n"))
    return made


TRANSFORMS = {transform.id: transform for transform in _transforms()}
OUTPUT_RULES = {rule.id: rule for rule in _output_rules()}

CAN_BE_NEGATIVE = frozenset({"neg", "diff"})
"""Kinds whose result may be negative although the input is not."""
