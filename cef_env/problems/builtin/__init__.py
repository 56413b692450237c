"""The built-in suite: many small problems, made deterministically, with references and natural bugs.

    from cef_env.problems import builtin
    c = builtin.draw("train", random.Random(0))     # cheap: no tests yet
    c.statement, c.efficient, c.problem()

See `compose.py` for the splits and `family.py` for what a family is.
"""

import random
from itertools import cycle, islice

from cef_env.errors import UserError
from cef_env.problems.builtin.compose import FAMILIES, SPLITS, TIME_LIMIT_S, Composition, composition, draw
from cef_env.problems.problem_set import ProblemSet
from cef_env.problems.types import Problem

__all__ = ["FAMILIES", "SPLITS", "TIME_LIMIT_S", "Composition", "composition", "draw", "load"]


MAX_COUNT = 1_000_000


def load(split: str | None = None, count: int = 200, seed: int = 0, graded: bool = False) -> ProblemSet:
    """`count` distinct problems of `split`, or of all three in turn; tests are made when asked for.

    A larger `count` with the same seed starts with the same problems. `graded`: of the size classes in which
    every coverage asks for something else (`compose.py`).
    """
    if not 1 <= count <= MAX_COUNT:
        raise UserError(f"builtin: count={count} must be from 1 to {MAX_COUNT}")
    splits = SPLITS if split is None else (split,)
    streams = {name: random.Random(f"{seed}/{name}") for name in splits}
    ids: dict[str, None] = {}
    for name in islice(cycle(splits), count):
        for _ in range(10_000):
            id_ = draw(name, streams[name], graded).id
            if id_ not in ids:
                ids[id_] = None
                break
        else:
            raise UserError(f"builtin: count={count} is more than split {name!r} holds; ask for fewer")
    name = f"builtin{'' if split is None else ':' + split}?count={count}&seed={seed}"
    name += "&graded=1" if graded else ""
    # Every problem has a test under 10 characters.
    return ProblemSet(name, ids, _fetch, smallest_level=lambda id_: 1)


def _fetch(id_: str) -> Problem:
    return composition(id_).problem()
