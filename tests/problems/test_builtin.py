"""The built-in suite: references against plain models, bugs that show, sizes, splits, determinism."""

import hashlib
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import accumulate, combinations, groupby

import pytest

from cef_env.errors import UserError
from cef_env.problems import builtin
from cef_env.problems.builtin import inputs
from cef_env.problems.builtin.execution import compiled, exposes
from cef_env.problems.builtin.transforms import OUTPUT_RULES, TRANSFORMS

Array = list[int]


def subarrays(a: Array) -> list[Array]:
    return [a[i:j] for i in range(len(a)) for j in range(i + 1, len(a) + 1)]


def pairs(a: Array) -> list[tuple[int, int]]:
    return list(combinations(a, 2))


def windows(a: Array, k: int) -> list[Array]:
    return [a[i : i + k] for i in range(len(a) - k + 1)]


def longest(a: Array, step: Callable[[int, int], bool]) -> int:
    """The longest subsequence whose neighbours satisfy `step`."""
    best: list[int] = []
    for i, x in enumerate(a):
        best.append(1 + max((best[j] for j in range(i) if step(a[j], x)), default=0))
    return max(best)


def next_greater(a: Array) -> int:
    return sum(next((j - i for j in range(i + 1, len(a)) if a[j] > x), 0) for i, x in enumerate(a))


def interval_union(a: Array, k: int) -> int:
    return len({x for left in a for x in range(left, left + k)})


def range_sums(a: Array) -> int:
    return sum(sum(a[min(i, x % len(a)) : max(i, x % len(a)) + 1]) for i, x in enumerate(a))


MODELS: dict[str, Callable[[Array, int], int]] = {
    "max_subarray": lambda a, k: max(map(sum, subarrays(a))),
    "min_subarray": lambda a, k: min(map(sum, subarrays(a))),
    "sum_k": lambda a, k: sum(sum(b) == k for b in subarrays(a)),
    "sum_divisible": lambda a, k: sum(sum(b) % k == 0 for b in subarrays(a)),
    "shortest_sum": lambda a, k: min([len(b) for b in subarrays(a) if sum(b) >= k] + [len(a) + 1]),
    "longest_distinct": lambda a, k: max(len(b) for b in subarrays(a) if len(set(b)) == len(b)),
    "at_most_k_distinct": lambda a, k: sum(len(set(b)) <= k for b in subarrays(a)),
    "pair_sum": lambda a, k: sum(x + y == k for x, y in pairs(a)),
    "pair_difference": lambda a, k: sum(y - x == k for x, y in pairs(a)),
    "pair_xor": lambda a, k: sum(x ^ y == k for x, y in pairs(a)),
    "closest_pair": lambda a, k: min(abs(x - y) for x, y in pairs(a)),
    "best_pair_sum": lambda a, k: max([x + y for x, y in pairs(a) if x + y <= k] + [0]),
    "max_product": lambda a, k: max(x * y for x, y in pairs(a)),
    "best_trade": lambda a, k: max([y - x for x, y in pairs(a)] + [0]),
    "inversions": lambda a, k: sum(x > y for x, y in pairs(a)),
    "non_inversions": lambda a, k: sum(x < y for x, y in pairs(a)),
    "inversions_or_equal": lambda a, k: sum(x >= y for x, y in pairs(a)),
    "non_inversions_or_equal": lambda a, k: sum(x <= y for x, y in pairs(a)),
    "smaller_before": lambda a, k: max(sum(y < x for y in a[:i]) for i, x in enumerate(a)),
    "increasing": lambda a, k: longest(a, lambda x, y: x < y),
    "non_decreasing": lambda a, k: longest(a, lambda x, y: x <= y),
    "chain": lambda a, k: longest(a, lambda x, y: x + k == y),
    "most_frequent": lambda a, k: max(len(list(g)) for _, g in groupby(sorted(a))),
    "interval_union": interval_union,
    "next_greater": lambda a, k: next_greater(a),
    "rectangle": lambda a, k: max(min(b) * len(b) for b in subarrays(a)),
    "window_max": lambda a, k: sum(map(max, windows(a, k))),
    "window_min": lambda a, k: sum(map(min, windows(a, k))),
    "range_sums": lambda a, k: range_sums(a),
}

SENTENCES: dict[str, Callable[[Array, int], Array]] = {
    r"replace each a\[i\] by a\[i\]\*(\d+)\.": lambda a, c: [x * c for x in a],
    r"replace each a\[i\] by a\[i\]\+(\d+)\.": lambda a, c: [x + c for x in a],
    r"replace each a\[i\] by a\[i\]/(\d+) rounded down\.": lambda a, c: [(x - x % c) // c for x in a],
    r"replace each a\[i\] by \|a\[i\]-(\d+)\|\.": lambda a, c: [max(x - c, c - x) for x in a],
    r"replace each a\[i\] by a\[i\] modulo (\d+) \(0 to \d+\)\.": lambda a, c: [x - c * (x // c) for x in a],
    r"move the first min\(n,(\d+)\) elements of a to its end\.": lambda a, c: a[c:] + a[: min(len(a), c)],
    r"replace each a\[i\] by -a\[i\]\.": lambda a, c: [-x for x in a],
    r"reverse a\.": lambda a, c: list(reversed(a)),
    r"sort a in ascending order\.": lambda a, c: sorted(a),
    r"replace each a\[i\] by a\[0\]\+\.\.\.\+a\[i\]\.": lambda a, c: list(accumulate(a)),
    r"replace each a\[i\] by a\[i\]-a\[i-1\], where a\[-1\] is the last element\.": (
        lambda a, c: [x - y for x, y in zip(a, [a[-1], *a])]
    ),
    r"Print the answer\.": lambda a, c: a,
    r"Print the answer plus (\d+)\.": lambda a, c: [a[0] + c],
    r"Print the answer times (\d+)\.": lambda a, c: [a[0] * c],
    r"Print the answer modulo (\d+) \(0 to \d+\)\.": lambda a, c: [a[0] % c],
}


def obey(sentence: str, a: Array) -> Array:
    """What one sentence of a statement asks for, read from its words."""
    for pattern, act in SENTENCES.items():
        if match := re.fullmatch(pattern, sentence):
            return act(a, int(match[1]) if match.groups() else 0)
    raise AssertionError(f"no model of the sentence {sentence!r}")


def model(c: builtin.Composition, text: str) -> str:
    """The answer that the statement asks for, from its sentences and the plain model of its family."""
    first, second = text.splitlines()
    a, k = list(map(int, second.split())), int(first.split()[1])
    for line in c.statement.splitlines():
        if line.startswith(("First ", "Then ")):
            a = obey(line.split(" ", 1)[1], a)
    output = next(line for line in c.statement.splitlines() if line.startswith("Print "))
    return f"{obey(output, [MODELS[c.family](a, k)])[0]}\n"


def of_family(family: str, count: int) -> list[builtin.Composition]:
    """Compositions of one family, with no, one and two transforms, large and small."""
    rng = random.Random(family)
    found: list[builtin.Composition] = []
    while len(found) < count:
        c = builtin.draw("train", rng)
        if c.family == family:
            found.append(c)
    return found


families = pytest.mark.parametrize("family", sorted(builtin.FAMILIES))


def test_every_family_has_a_plain_model() -> None:
    assert MODELS.keys() == builtin.FAMILIES.keys()
    assert len(builtin.FAMILIES) >= 24
    for family in builtin.FAMILIES.values():
        assert len(set(family.brute_force_bugs)) >= 2
        assert len(set(family.efficient_bugs)) >= 2


@families
def test_references_do_what_the_statement_says(family: str) -> None:
    rng = random.Random(f"model {family}")
    data = builtin.FAMILIES[family]
    for c in of_family(family, 12):
        for _ in range(25):
            slot = inputs.Slot(rng.randint(data.min_n, 9), rng.choice((2, 9, 40)))
            test = c._test(rng, slot)
            expected = model(c, test.input)
            assert test.output == expected, (c.id, test.input)
            assert compiled(c.brute_force)(test.input) == expected, (c.id, test.input)


@families
def test_tests_agree_and_every_bug_shows(family: str) -> None:
    shown: Counter[str] = Counter()
    compositions = of_family(family, 8)
    for c in compositions:
        problem = c.problem()
        for test in problem.tests:
            if test.length < 1000:
                assert compiled(c.brute_force)(test.input) == test.output, (c.id, test.input)
        for bug, body in zip(
            c._bugs, builtin.FAMILIES[family].brute_force_bugs + c.family_data.efficient_bugs
        ):
            shown[body] += any(exposes(bug, t.input, t.output) for t in problem.tests if t.length < 1000)
    for body, count in shown.items():
        assert count >= len(compositions) - 1, f"{family}: a bug that mostly stays hidden:\n{body}"


def test_bugs_are_caught_in_almost_every_composition() -> None:
    rng = random.Random(7)
    hidden = total = 0
    for _ in range(600):
        c = builtin.draw(rng.choice(builtin.SPLITS), rng)
        total += len(c._bugs)
        hidden += len(c._small_tests(random.Random(hashlib.sha256(c.id.encode()).digest()))[1])
    assert hidden <= total / 500


@pytest.mark.parametrize("transform", sorted(TRANSFORMS))
def test_transforms_do_what_they_say(transform: str) -> None:
    t = TRANSFORMS[transform]
    rng = random.Random(transform)
    for _ in range(30):
        a = [rng.randint(-30, 30) for _ in range(rng.randint(1, 9))]
        program = f"n=int(input())\na=list(map(int,input().split()))\n{t.code}print(*a)\n"
        expected = obey(t.text, list(a))
        assert t.apply(list(a)) == expected
        assert compiled(program)(f"{len(a)}\n{' '.join(map(str, a))}\n").split() == list(map(str, expected))


@pytest.mark.parametrize("rule", sorted(OUTPUT_RULES))
def test_output_rules_do_what_they_say(rule: str) -> None:
    for answer in (-120, -1, 0, 7, 10**6):
        printed = compiled(f"s={answer}\n{OUTPUT_RULES[rule].code}")("")
        assert printed == f"{obey(OUTPUT_RULES[rule].text, [answer])[0]}\n"


@families
@pytest.mark.parametrize("small", [False, True])
def test_lengths_fall_into_every_decade(family: str, small: bool) -> None:
    c = next(c for c in of_family(family, 40) if c.small == small)
    problem = c.problem()
    lengths = [test.length for test in problem.tests]
    assert problem.levels == ((1, 2, 3, 4) if small else (1, 2, 3, 4, 5, 6))
    assert lengths[0] < 10
    assert sum(length < 100 for length in lengths) >= 4
    assert sum(length < 1000 for length in lengths) >= 7
    assert 9 <= len(lengths) <= 11
    sizes = [int(test.input.split()[0]) for test in problem.tests]
    assert max(sizes) <= (inputs.SMALL_N if small else inputs.LARGE_N)
    if not small:
        assert lengths[-1] >= 10**5
        assert 10**4 * 5 <= lengths[-2] < 10**5
    for test in problem.tests:
        assert len(test.input.splitlines()[1].split()) == int(test.input.split()[0])
        assert re.fullmatch(r"-?\d+\n", test.output)


def test_splits_are_disjoint_and_keep_their_promise() -> None:
    rng = random.Random(3)
    programs: dict[str, set[str]] = {split: set() for split in builtin.SPLITS}
    ids: set[str] = set()
    for split in builtin.SPLITS:
        for _ in range(4000):
            c = builtin.draw(split, rng)
            programs[split].add(c.efficient)
            ids.add(c.id.partition("/")[2])
            assert c.split == split
            if split == "easy":
                assert not c.family_data.subtle
                assert len(c.transforms) <= 1
            if split == "hard":
                assert c.family_data.subtle
                assert len(c.transforms) == 2
    assert not programs["train"] & programs["easy"]
    assert not programs["train"] & programs["hard"]
    assert not programs["easy"] & programs["hard"]
    assert {c.partition(".")[0] for c in ids} == builtin.FAMILIES.keys()
    assert len(ids) > 8000
    assert 8 <= sum(f.subtle for f in builtin.FAMILIES.values()) <= 12


def test_share_of_small_problems() -> None:
    rng = random.Random(4)
    small = sum(builtin.draw("train", rng).small for _ in range(4000))
    assert 0.27 <= small / 4000 <= 0.33


def test_programs_and_statements_are_short_and_clean() -> None:
    rng = random.Random(5)
    lines: set[str] = set()
    for _ in range(3000):
        c = builtin.draw(rng.choice(builtin.SPLITS), rng)
        assert c.brute_force.count("\n") <= 20
        assert c.efficient.count("\n") <= 25
        assert len(c.statement.splitlines()) <= 7
        assert c.statement.count(f"Limits: n <= {300 if c.small else 10000}.") == 1
        for program in (c.brute_force, c.efficient, *c._bugs):
            assert program.endswith(c.output.code)
            assert "```" not in program
            assert "\n\n" not in program
            lines.update(program.splitlines())
        lines.update(c.statement.splitlines())
    assert len(lines) <= 400


def test_an_id_rebuilds_its_composition() -> None:
    rng = random.Random(6)
    for _ in range(500):
        c = builtin.draw(rng.choice(builtin.SPLITS), rng)
        assert builtin.composition(c.id) == c


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "train",
        "train/none.plain.large",
        "train/inversions.plain",
        "train/inversions.mul3.mul5.plain.large",
        "train/inversions.sort.plain.large",
        "train/inversions.mul3.what.plain.large",
        "train/inversions.plain.huge",
        "easy/inversions.plain.large",
        "train/rectangle.neg.plain.large",
    ],
)
def test_unknown_ids_are_refused(bad: str) -> None:
    with pytest.raises(UserError, match="builtin has no problem"):
        builtin.composition(bad)


def test_problem_carries_labelled_programs() -> None:
    c = next(c for c in of_family("inversions", 30) if not c.small)
    problem = c.problem()
    expected = {s.kind: s.expected for s in problem.submissions}
    assert expected["brute_force"] == ("optimization_failure",)
    assert expected["efficient"] == ("correct",)
    assert expected["efficient_bug"] == expected["brute_force_bug"] == ("correctness_failure",)
    assert problem.id == c.id
    assert problem.difficulty == "train"
    assert problem.source == "builtin"


def test_load_is_lazy_distinct_and_a_prefix_of_a_larger_load() -> None:
    problems = builtin.load("hard", count=2000, seed=1)
    assert len(set(problems.ids)) == 2000
    assert problems.ids[:50] == builtin.load("hard", count=50, seed=1).ids
    assert problems.ids[:50] != builtin.load("hard", count=50, seed=2).ids
    assert {problems.smallest_level(id_) for id_ in problems.ids} == {1}
    assert problems[0].levels[0] == 1
    mixed = builtin.load(count=9)
    assert [id_.partition("/")[0] for id_ in mixed.ids] == ["train", "easy", "hard"] * 3
    with pytest.raises(UserError, match="more than split 'easy' holds"):
        builtin.load("easy", count=7000)


_DIGEST = """
import hashlib
from cef_env.problems import builtin
problems = builtin.load(count=9, seed=5)
text = "".join(repr((p.id, p.statement, p.tests_hash, p.submissions)) for p in problems)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_same_seed_same_problems_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "random")
    }
    assert len(digests) == 1
