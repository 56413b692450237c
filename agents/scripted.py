"""Agents without a model: reference solutions, their bugs, one that tests before it hands in, and noise.

They play any setting on the problems of a source that carries programs with known outcomes
(`Problem.submissions`), for checking environments, judges and evaluations. How the debugger tests is in
`debugger.py`. Command: `cef rollout --agent scripted:efficient`.
"""

import hashlib
import json
import random
import re
import threading
from dataclasses import dataclass

from cef_env.agents.base import Message
from cef_env.agents.debugger import passes, sample_call, write_file
from cef_env.envs.text import fenced
from cef_env.envs.tools import call_text
from cef_env.errors import UserError
from cef_env.judge import Language
from cef_env.problems import Problem, ProblemSet
from cef_env.problems.types import Submission

KINDS = ("brute_force", "efficient", "brute_force_bug", "efficient_bug")
NAMES = (*KINDS, "debugger", "random_text")
SUFFIXES = {Language.PYTHON: ".py", Language.CPP17: ".cpp"}
"""Of files that the agentic setting takes."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the first message of an episode asks."""

    problem: Problem
    tools: frozenset[str]
    """Names of the tools that there are: none, python, or bash and submit."""
    repair: bool
    """Whether a failed program stands below the statement."""


class ScriptedAgent:
    """Answers each problem with one of its submissions, in whatever setting it is asked.

    Args:
        kind: `brute_force`, `efficient`, `brute_force_bug` or `efficient_bug`: the first submission of that
            kind. `debugger`: starts with a wrong or slow one, runs it on the samples with the tools of the
            setting, and goes over to an efficient one only when a sample fails. Without tools it has only
            what it was told: a failed program (then it answers with an efficient one) or nothing.
        problems: the set that the environment plays; statements are looked up in it.
    """

    def __init__(self, kind: str, problems: ProblemSet) -> None:
        if kind not in (*KINDS, "debugger"):
            raise UserError(f"agent scripted:{kind} is unknown; choose one of {', '.join(NAMES)}")
        self.kind = kind
        self._problems = problems
        self._statements: dict[str, str] = {}
        self._tasks: dict[str, Task] = {}
        self._lock = threading.Lock()

    def act(self, messages: list[Message]) -> str:
        task = self._task(messages[0]["content"])
        if self.kind != "debugger":
            return self._hand_in(task, self._submission(task, self.kind), messages)
        first = self._start(task.problem)
        if task.repair or not task.tools:
            return fenced((self._submission(task, "efficient") if task.repair else first).program)
        if len(messages) == 1:
            return sample_call(task.problem, first, task.tools)
        if passes(messages[2]["content"]):
            return self._hand_in(task, first, messages, written=True)
        return self._hand_in(task, self._submission(task, "efficient"), messages, written=len(messages) > 3)

    def _hand_in(
        self, task: Task, submission: Submission, messages: list[Message], written: bool | None = None
    ) -> str:
        """The answer; in a terminal first the call that writes it into a file."""
        if "submit" not in task.tools:
            return fenced(submission.program)
        name = file_name(submission)
        if written if written is not None else len(messages) > 1:
            return call_text("submit", "path", name)
        return call_text("bash", "command", write_file(name, submission.program))

    def _start(self, problem: Problem) -> Submission:
        """What the debugger begins with: by the problem's id a bug or the brute force."""
        usable = [s for s in problem.submissions if s.language == Language.PYTHON]
        begin = [s for s in usable if s.kind.endswith("_bug") or s.kind == "brute_force"]
        if not begin:
            raise UserError(f"problem {problem.id!r} carries no wrong program in Python; use another agent")
        return begin[hashlib.sha256(problem.id.encode()).digest()[0] % len(begin)]

    def _submission(self, task: Task, kind: str) -> Submission:
        languages = tuple(SUFFIXES) if "submit" in task.tools else (Language.PYTHON,)
        for submission in task.problem.submissions:
            if submission.kind == kind and submission.language in languages:
                return submission
        raise UserError(
            f"problem {task.problem.id!r} carries no submission of kind {kind!r} in "
            f"{' or '.join(languages)}; use another agent"
        )

    def _task(self, observation: str) -> Task:
        """Which problem is asked, and what there is to work with.

        The longest statement in the message counts: others may be part of it.
        """
        with self._lock:
            if observation in self._tasks:
                return self._tasks[observation]
            if not self._statements:
                self._statements = {problem.statement.rstrip(): problem.id for problem in self._problems}
            found = max((s for s in self._statements if s in observation), key=len, default=None)
            if found is None:
                raise UserError(
                    f"agent scripted:{self.kind}: this statement is not of {self._problems.name!r}"
                )
            rest = observation[observation.index(found) + len(found) :]
            tools = frozenset(re.findall(r'^\{"type": "function", "function": \{"name": "(\w+)"', rest, re.M))
            problem = self._problems.get(self._statements[found])
            task = Task(problem, tools, "\nThis program failed:\n" in rest)
            self._tasks[observation] = task
            return task


class RandomTextAgent:
    """Answers with words and now and then a code block that is not a program. The same conversation gets the
    same answer, so that a rollout can be repeated."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def act(self, messages: list[Message]) -> str:
        rng = random.Random(f"{self._seed} {json.dumps(messages)}")
        words = rng.choices(["array", "sum", "loop", "the", "(", ":", "maybe", "42"], k=12)
        text = " ".join(words)
        return fenced(text) if rng.random() < 0.3 else text


def file_name(submission: Submission) -> str:
    """What its file is called in a terminal."""
    return f"solution{SUFFIXES[Language(submission.language)]}"
