"""Compositions: family x transforms x output rule x size class, their splits, programs and tests.

    train   every family, any number of transforms
    easy    families whose efficient program is short, at most one transform
    hard    families whose efficient program is long or subtle, exactly two transforms

A composition belongs to exactly one split, decided by a hash of its ingredients, so that no program of
`train` ever occurs in `easy` or `hard`. Tests are made only by `Composition.problem()`.

Size classes say what the tests ask for:

    small    n <= 300, as the statement says: the quadratic program passes
    large    n <= 10000: it fails from tests of 10^4 to 10^5 characters on (coverage 5)
    weak     n <= 10000 by the statement, but no test has more than 300 elements: it passes
    large4   it fails under 10^4 characters already (coverage 4)
    large6   it fails only on tests of 10^5 characters and more (coverage 6 or all)

Problems are small or large; *graded* ones are of the last four classes, which a statement does not tell
apart. Then every coverage asks for something else, and neither way to solve a problem is always right.
"""

import hashlib
import random
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from cef_env.errors import UserError
from cef_env.problems.builtin import (
    families_order,
    families_pairs,
    families_subarray,
    families_windows,
    inputs,
)
from cef_env.problems.builtin.execution import compiled, exposes
from cef_env.problems.builtin.family import Family
from cef_env.problems.builtin.transforms import (
    CAN_BE_NEGATIVE,
    OUTPUT_RULES,
    TRANSFORMS,
    OutputRule,
    Transform,
)
from cef_env.problems.types import Problem, Submission, TestCase

SPLITS = ("train", "easy", "hard")
TIME_LIMIT_S = 0.2
"""CPU seconds per test, the same for every problem.

At least four times what an efficient reference takes on the largest test, and an eighth or less of what a
quadratic one takes there; those take at most half of it under 10^4 characters.
"""
MEMORY_LIMIT_MB = 128

FAMILIES: dict[str, Family] = {
    family.name: family
    for module in (families_subarray, families_pairs, families_order, families_windows)
    for family in module.FAMILIES
}

HELD_OUT = 0.4
"""Share of the compositions that could be `easy` or `hard` which are; the rest are `train`."""
SMALL_SHARE = 0.3
"""Of small problems, and of weak ones among graded."""
SIZES = ("small", "large", "weak", "large4", "large6")
GRADED_LARGE = ("large4", "large", "large6")
"""Equally frequent."""
_READ = "n,k=map(int,input().split())\na=list(map(int,input().split()))\n"
SAMPLES = 2
"""The shortest tests of a problem: a solver sees them in settings that show tests; the statement has none.
About half of the bugs fail one of them."""
_ATTEMPTS = 6
"""How often small tests are drawn anew until they expose every bug."""


@dataclass(frozen=True)
class Composition:
    """One problem before its tests are made; cheap. Build with `draw` or `composition`."""

    split: str
    family_data: Family
    transforms: tuple[Transform, ...]
    output: OutputRule
    size: str
    """One of `SIZES`."""

    @property
    def family(self) -> str:
        return self.family_data.name

    @property
    def small(self) -> bool:
        """Whether no test has more than 300 elements, so that the quadratic program passes the full suite."""
        return self.size in ("small", "weak")

    @property
    def id(self) -> str:
        """Readable and complete, e.g. `train/inversions.mul3.rev.mod97.large`."""
        return f"{self.split}/{_key(self.family_data, self.transforms, self.output, self.size)}"

    @property
    def statement(self) -> str:
        family = self.family_data
        kind = "nonnegative integers" if family.natural else "integers"
        lines = [f"Given an array a of n {kind} and an integer k."]
        lines += [f"{word} {t.text}" for word, t in zip(("First", "Then"), self.transforms)]
        lines += [
            family.task,
            self.output.text,
            "Input: n and k on the first line, a on the second.",
            f"Limits: n <= {inputs.SMALL_N if self.size == 'small' else inputs.LARGE_N}.",
        ]
        return "\n".join(lines) + "\n"

    def _program(self, body: str) -> str:
        return _READ + "".join(t.code for t in self.transforms) + body + self.output.code

    @property
    def brute_force(self) -> str:
        return self._program(self.family_data.brute_force)

    @property
    def efficient(self) -> str:
        return self._program(self.family_data.efficient)

    @property
    def brute_force_bugs(self) -> tuple[str, ...]:
        return tuple(map(self._program, self.family_data.brute_force_bugs))

    @property
    def efficient_bugs(self) -> tuple[str, ...]:
        return tuple(map(self._program, self.family_data.efficient_bugs))

    @cached_property
    def _bugs(self) -> tuple[str, ...]:
        return self.brute_force_bugs + self.efficient_bugs

    def problem(self) -> Problem:
        """The problem with its tests and labelled programs; the same on every machine and run."""
        rng = random.Random(hashlib.sha256(self.id.encode()).digest())
        small_tests, hidden = self._small_tests(rng)
        slots = inputs.plan(self.size, self.family_data.large_shapes)
        large = [self._test(rng, slot) for slot in slots if slot.large]
        small_tests = [
            replace(test, sample=position < SAMPLES)
            for position, test in enumerate(sorted(small_tests, key=lambda test: test.length))
        ]
        if not self.small:
            assert large[-1].length >= 10**5, f"{self.id}: largest test has {large[-1].length} characters"
        return Problem(
            id=self.id,
            title=self.family.replace("_", " ").capitalize(),
            statement=self.statement,
            tests=(*small_tests, *large),
            time_limit_s=TIME_LIMIT_S,
            memory_limit_mb=MEMORY_LIMIT_MB,
            difficulty=self.split,
            tags=(self.family, self.size),
            source="builtin",
            submissions=self._submissions(hidden),
        )

    def _submissions(self, hidden: frozenset[str]) -> tuple[Submission, ...]:
        """The labelled programs; a bug that no small test exposes has no expected outcome."""
        slow = ("correct",) if self.small else ("optimization_failure",)
        made = [
            Submission("brute_force", self.brute_force, slow),
            Submission("efficient", self.efficient, ("correct",)),
        ]
        for kind, programs in (
            ("brute_force_bug", self.brute_force_bugs),
            ("efficient_bug", self.efficient_bugs),
        ):
            for program in programs:
                expected = () if program in hidden else ("correctness_failure",)
                made.append(Submission(kind, program, expected))
        return tuple(made)

    def _small_tests(self, rng: random.Random) -> tuple[list[TestCase], frozenset[str]]:
        """Tests under 10^3 characters and the bugs that they miss: the best of a few draws."""
        best: tuple[list[TestCase], frozenset[str]] | None = None
        for _ in range(_ATTEMPTS):
            tests = [self._first_test(rng)]
            for slot in inputs.plan(self.size, self.family_data.large_shapes):
                if not slot.large:
                    tests.append(self._test(rng, slot))
            hidden = frozenset(
                bug for bug in self._bugs if not any(exposes(bug, test.input, test.output) for test in tests)
            )
            if best is None or len(hidden) < len(best[1]):
                best = tests, hidden
            if not hidden:
                break
        assert best is not None
        return best

    def _first_test(self, rng: random.Random) -> TestCase:
        """A test under 10 characters."""
        n = self.family_data.min_n
        for _ in range(30):
            raw = inputs.first_array(rng, n)
            text = inputs.text(raw, self.family_data.choose_k(rng, self._transformed(raw)))
            if len(text) < 10:
                return self._answered(text)
        return self._answered(inputs.text([0] * n, 1))

    def _test(self, rng: random.Random, slot: inputs.Slot) -> TestCase:
        raw = inputs.array(rng, slot, self.family_data.natural)
        return self._answered(inputs.text(raw, self.family_data.choose_k(rng, self._transformed(raw))))

    def _answered(self, text: str) -> TestCase:
        return TestCase(text, compiled(self.efficient)(text))

    def _transformed(self, a: list[int]) -> list[int]:
        for transform in self.transforms:
            a = transform.apply(a)
        return a


_TRIVIAL = (("mod", "prefix"), ("abs", "prefix"))
"""Prefix sums of nonnegative elements ascend, mostly without repetition: little is left of the task."""


def _key(family: Family, transforms: tuple[Transform, ...], output: OutputRule, size: str) -> str:
    return ".".join([family.name, *(t.id for t in transforms), output.id, size])


def allowed(family: Family, transforms: tuple[Transform, ...]) -> bool:
    """Whether these transforms keep the task meaningful for this family."""
    kinds = [t.kind for t in transforms]
    if len(set(kinds)) < len(kinds) or family.without.intersection(kinds):
        return False
    if any(pair in _TRIVIAL for pair in pairwise(kinds)):
        return False
    return not (family.natural and CAN_BE_NEGATIVE.intersection(kinds))


def split_of(family: Family, transforms: tuple[Transform, ...], output: OutputRule) -> str:
    """The one split that a composition belongs to.

    Neither the size class nor the order of two transforms counts: the programs of the two size classes
    are the same, and many transforms commute, so otherwise a held-out program would occur in `train`.
    """
    key = ".".join([family.name, *sorted(t.id for t in transforms), output.id])
    held_out = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) < HELD_OUT * 2**64
    if held_out and not family.subtle and len(transforms) <= 1:
        return "easy"
    if held_out and family.subtle and len(transforms) == 2:
        return "hard"
    return "train"


def draw(split: str, rng: random.Random, graded: bool = False) -> Composition:
    """A random composition of `split`: family first, then transforms, output rule and size class."""
    if split not in SPLITS:
        raise UserError(f"builtin: split {split!r} is unknown; choose one of {', '.join(SPLITS)}")
    families = [f for f in FAMILIES.values() if split == "train" or f.subtle == (split == "hard")]
    kinds = tuple(TRANSFORMS.values())
    while True:
        family = rng.choice(families)
        count = {"train": rng.choice((0, 1, 1, 2, 2)), "easy": rng.choice((0, 1, 1)), "hard": 2}[split]
        transforms = tuple(rng.choice(kinds) for _ in range(count))
        while not allowed(family, transforms):
            transforms = tuple(rng.choice(kinds) for _ in range(count))
        output = rng.choice(tuple(OUTPUT_RULES.values()))
        small = rng.random() < SMALL_SHARE
        if split_of(family, transforms, output) == split:
            if graded:
                size = "weak" if small else rng.choice(GRADED_LARGE)
            else:
                size = "small" if small else "large"
            return Composition(split, family, transforms, output, size)


def composition(id_: str) -> Composition:
    """The composition with this id; `UserError` when there is none."""
    split, _, key = id_.partition("/")
    parts = key.split(".")
    if len(parts) >= 3 and parts[-1] in SIZES:
        family, output = FAMILIES.get(parts[0]), OUTPUT_RULES.get(parts[-2])
        transforms = tuple(TRANSFORMS[part] for part in parts[1:-2] if part in TRANSFORMS)
        if (
            family is not None
            and output is not None
            and len(transforms) == len(parts) - 3 <= 2
            and allowed(family, transforms)
            and split_of(family, transforms, output) == split
        ):
            return Composition(split, family, transforms, output, parts[-1])
    raise UserError(f"builtin has no problem {id_!r}; `cef problems list builtin` shows some of its ids")
