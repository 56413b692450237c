"""Agents without a model: reference solutions, their bugs, and noise.

They play the problems of a source that carries programs with known outcomes (`Problem.submissions`), for
checking environments, judges and evaluations. Command: `cef rollout --agent scripted:efficient`.
"""

import random

from cef_env.agents.base import Message
from cef_env.envs.prompts import prompt_text
from cef_env.envs.text import fenced
from cef_env.errors import UserError
from cef_env.problems import ProblemSet

KINDS = ("brute_force", "efficient", "brute_force_bug", "efficient_bug")
NAMES = (*KINDS, "random_text")


class ScriptedAgent:
    """Answers each problem with its first submission of one kind.

    Args:
        kind: one of `brute_force`, `efficient`, `brute_force_bug`, `efficient_bug`.
        problems: the set that the environment plays; statements are looked up in it.
    """

    def __init__(self, kind: str, problems: ProblemSet) -> None:
        if kind not in KINDS:
            raise UserError(f"agent scripted:{kind} is unknown; choose one of {', '.join(NAMES)}")
        self.kind = kind
        self._problems = problems
        self._id_of = {prompt_text(problem): problem.id for problem in problems}

    def act(self, messages: list[Message]) -> str:
        statement = messages[0]["content"]
        if statement not in self._id_of:
            raise UserError(f"agent scripted:{self.kind}: this statement is not of {self._problems.name!r}")
        problem = self._problems.get(self._id_of[statement])
        for submission in problem.submissions:
            if submission.kind == self.kind:
                return fenced(submission.program)
        raise UserError(
            f"problem {problem.id!r} carries no submission of kind {self.kind!r}; use another agent"
        )


class RandomTextAgent:
    """Answers with words and now and then a code block that is not a program."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)

    def act(self, messages: list[Message]) -> str:
        words = self._rng.choices(["array", "sum", "loop", "the", "(", ":", "maybe", "42"], k=12)
        text = " ".join(words)
        return fenced(text) if self._rng.random() < 0.3 else text
