"""One sweep from what a user asks for: the request, its plan, and the work. Command: `cef eval`.

run_sweep(Request(problems=("builtin:hard",), agent="hf:PATH", samples=50), Path("runs/x"), reporter)
"""

import math
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.eval.join import shard_folder
from cef_env.eval.members import Agents, Recipe, fingerprint, merged_recipes, plain_recipes, union
from cef_env.eval.plan import Plan, Work
from cef_env.eval.sampling import Progress, make_env, sweep
from cef_env.files import exclusive
from cef_env.judge import Judge
from cef_env.problems import ProblemSet, load

JUDGE_CACHE = "judge.sqlite"
MAX_SAMPLES = 1_000_000
"""Answers to one problem by one member: more is a mistyped number."""


@dataclass(frozen=True)
class Request:
    """What to sample; see `cef eval --help`."""

    problems: tuple[str, ...]
    """Sources, each a split of its own; `NAME=SOURCE` gives it a name."""
    samples: int
    agent: str | None = None
    env: str = "cef/Reasoning-v0"
    alphas: tuple[float, ...] = ()
    low: Path | None = None
    high: Path | None = None
    members: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    seed: int = 0
    temperature: float | None = None
    max_new_tokens: int | None = None
    chunk_problems: int = 4
    chunk_samples: int = 25
    shard: tuple[int, int] | None = None

    @property
    def endpoints(self) -> tuple[Path, Path] | None:
        """Low and high, if alphas are merged in memory."""
        if self.low is None and self.high is None:
            return None
        if self.low is None or self.high is None:
            raise UserError("give both --low and --high, or neither")
        return self.low, self.high

    @property
    def agent_options(self) -> dict[str, Any]:
        """What every agent is made with; an option that was not given is the agent's own."""
        options = {"temperature": self.temperature, "max_new_tokens": self.max_new_tokens}
        return {name: value for name, value in options.items() if value is not None}

    def recipes(self) -> list[Recipe]:
        """All members."""
        if self.endpoints is not None:
            if self.members:
                raise UserError("--member gives agents of their own; leave it out with --low and --high")
            if not self.alphas:
                raise UserError("--low and --high need --alphas, such as -0.5:1.5:0.25")
            agent = self.agent or f"hf:{self.low}"
            return merged_recipes(agent, self.alphas, self.controls)
        if len(self.alphas) > 1:
            raise UserError("several alphas need --low and --high, or one --member ALPHA=AGENT for each")
        return plain_recipes(self.agent, next(iter(self.alphas), None), self.members, self.controls)


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """`2/4` as (2, 4)."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"--shard {text!r}: write i/n with 1 <= i <= n, such as 2/4")
    return int(match[1]), int(match[2])


def load_splits(sources: tuple[str, ...]) -> dict[str, ProblemSet]:
    """Split name -> problems; `UserError` when two have one name."""
    splits: dict[str, ProblemSet] = {}
    for text in sources:
        match = re.match(r"([\w.-]+)=", text)
        name, source = (match[1], text[match.end() :]) if match else (text, text)
        if name in splits:
            raise UserError(f"--problems: split {name!r} is given twice; write NAME=SOURCE with another name")
        splits[name] = load(source)
    return splits


def make_plan(request: Request, recipes: list[Recipe], splits: Mapping[str, ProblemSet]) -> Plan:
    """The plan of a request: members outer loop, then splits."""
    if not 1 <= request.samples <= MAX_SAMPLES:
        raise UserError(f"--samples {request.samples}: from 1 to {MAX_SAMPLES}")
    for name, size in (("problems", request.chunk_problems), ("samples", request.chunk_samples)):
        if size < 1:
            raise UserError(f"--chunk-{name} {size}: at least 1")
    if request.temperature is not None and not 0 < request.temperature < math.inf:
        raise UserError(f"--temperature {request.temperature:g}: a finite number above 0")
    if request.max_new_tokens is not None and request.max_new_tokens < 1:
        raise UserError(f"--max-new-tokens {request.max_new_tokens}: at least 1")
    ends = request.endpoints
    config = {
        "env": request.env,
        "problems": {name: problems.name for name, problems in splits.items()},
        "seed": request.seed,
        "agent_options": request.agent_options,
        "endpoints": None if ends is None else {n: fingerprint(p) for n, p in zip(("low", "high"), ends)},
        "members": [
            recipe.to_json() | ({"agent": None} if ends is not None and request.agent is None else {})
            for recipe in recipes
        ],
    }
    work = tuple(
        Work(recipe.member, name, problems.ids, request.samples)
        for recipe in recipes
        for name, problems in splits.items()
    )
    return Plan(work, request.chunk_problems, request.chunk_samples, config, request.shard)


def run_sweep(request: Request, out: Path, progress: Progress) -> Path:
    """Draws what is still missing of a request; returns the folder with the samples.

    With a shard that is a folder inside `out`. Run again after a kill it continues to the same samples,
    provided that the agent answers alike when it is given the same seed.
    """
    recipes = request.recipes()
    splits = load_splits(request.problems)
    plan = make_plan(request, recipes, splits)
    folder = shard_folder(out, request.shard)
    with ExitStack() as stack:
        judge = stack.enter_context(Judge(cache=out / JUDGE_CACHE))  # shared by all members and shards
        make_env(request.env, next(iter(splits.values())), judge).close()  # before anything is written
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(exclusive(folder / "lock", f"folder {str(folder)!r}"))
        agents = Agents(recipes, union(splits), request.agent_options, request.endpoints, request.seed)
        sweep(plan, folder, agents, splits, judge, request.seed, progress, request.env)
    return folder
