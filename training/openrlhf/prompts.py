"""The data of a launch: prompts for training at each coverage, for evaluation, and for the warm start.

A prompt is what its environment shows first; a label says which problem it is, never what its tests are. Does
not train. Command: `cef openrlhf export CONFIG --out DIR`.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cef_env.envs import RepairEnv
from cef_env.envs.text import fenced
from cef_env.errors import UserError
from cef_env.files import write_atomic
from cef_env.judge import JudgeResult, Outcome
from cef_env.judge.base import BaseJudge
from cef_env.problems import Coverage, Problem, ProblemSet, load
from cef_env.training.openrlhf.config import LaunchConfig
from cef_env.training.openrlhf.environments import Env, Label, make_environment

Progress = Callable[[int, int, str], None]
EVAL_COVERAGE: Coverage = None
"""Evaluation judges all tests, whatever the coverage of the run."""


@dataclass(frozen=True)
class Written:
    """One file of the data."""

    path: Path
    rows: int
    dropped: int
    """Problems of the source that take no part: without a test at this coverage, or without a program."""
    why: str
    """For what reason."""
    repairs: int = 0
    """Rows of online fixing among `rows`."""


def data_files(config: LaunchConfig) -> dict[str, str]:
    """The files that an export writes, by what they are for: `low`, `high`, `eval`, `sft`."""
    names: dict[str, None] = dict.fromkeys(config.coverages)
    if config.problems.eval is not None:
        names["eval"] = None
    if config.sft is not None and config.sft.dataset is None:
        names["sft"] = None
    return {name: f"data/{name}.jsonl" for name in names}


def require_problems(config: LaunchConfig) -> dict[str, int]:
    """How many prompts each coverage has; `UserError` names a coverage that has none."""
    problems = load(config.problems.train)
    counts: dict[str, int] = {}
    for name, k in config.coverages.items():
        counts[name] = len([i for i in problems.ids if k is None or problems.smallest_level(i) <= k])
        if not counts[name]:
            raise UserError(
                f"key coverages.{name}: no problem of {config.problems.train!r} has a test under 10^{k} "
                "characters, so there is no R_k to train on; use a larger coverage"
            )
    return counts


def export(
    config: LaunchConfig, out: Path, progress: Progress, judge: BaseJudge | None = None
) -> list[Written]:
    """Writes every file of `data_files` into `out`. `judge` is used by the repair setting alone."""
    if config.environment.arguments.get("reveal") == "all":
        raise UserError("key environment.arguments.reveal: all shows hidden tests; use samples or nothing")
    require_problems(config)
    (out / "data").mkdir(parents=True, exist_ok=True)
    train = load(config.problems.train)
    written = []
    for name, path in data_files(config).items():
        if name == "sft":
            made = _supervised(config, train)
            dropped, why = len(train) - len(made), "no Python program labelled correct"
        else:
            made, dropped = _prompts(config, name, train, progress, judge)
            repair = config.environment.setting == "repair"
            why = "no labelled program that fails at it" if repair else "no test at this coverage"
        if not made:
            raise UserError(f"{out / path}: no problem is left for it ({dropped} have {why})")
        alone = len(made)
        if name in config.coverages:
            made = _mixed(made, config.rl.repair_share, config.rl.seed)
        write_atomic(out / path, "".join(json.dumps(row) + "\n" for row in made))
        written.append(Written(out / path, len(made), dropped, why, len(made) - alone))
    return written


def _mixed(rows: list[dict[str, Any]], share: float, seed: int) -> list[dict[str, Any]]:
    """The rows and, each behind its own, as many rows of online fixing as make this share of all.

    Every problem keeps its row. Those that have one more than others are drawn by the seed.
    """
    wanted = round(len(rows) * share / (1 - share))
    if share and not wanted:
        raise UserError(
            f"key rl.repair_share: {share:g} of {len(rows)} prompts is not one; use more of either"
        )
    order = random.Random(seed).sample(range(len(rows)), len(rows))
    times = Counter(order[repair % len(rows)] for repair in range(wanted))

    def fixing(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "label": replace(Label.parse(row["label"]), fixing=True).text()}

    return [one for place, row in enumerate(rows) for one in (row, *[fixing(row)] * times[place])]


def _prompts(
    config: LaunchConfig, name: str, train: ProblemSet, progress: Progress, judge: BaseJudge | None
) -> tuple[list[dict[str, Any]], int]:
    """The rows of one file of prompts, and how many problems it leaves out."""
    if name == "eval":
        assert config.problems.eval is not None
        source, problems, coverage, split = (
            config.problems.eval,
            load(config.problems.eval),
            EVAL_COVERAGE,
            name,
        )
        problems = problems[: config.problems.eval_count]
    else:
        source, problems, coverage, split = config.problems.train, train, config.coverages[name], "train"  # type: ignore[index]
    env = make_environment(config.agent, problems, coverage, split, judge)
    rows = []
    try:
        for done, id_ in enumerate(problems.ids, 1):
            if coverage is None or problems.smallest_level(id_) <= coverage:
                rows += list(_row(env, Label(source, id_, coverage, split), config.rl.seed))
            progress(done, len(problems), name)
    finally:
        env.close()
    return rows, len(problems) - len(rows)


def _row(env: Env, label: Label, seed: int) -> Iterator[dict[str, Any]]:
    """The row of one problem; none where a failed program is needed and there is none."""
    inner: Any = env.unwrapped
    try:
        observation, _ = env.reset(seed=seed, options=label.options)
    except UserError:
        if not isinstance(inner, RepairEnv):
            raise
        return
    if isinstance(inner, RepairEnv):
        assert inner.failure is not None
        result = _without_hidden_details(inner.failure, inner.problems.get(label.problem_id))
        label = replace(label, program=inner.failed_program, result=result.to_json())
    # No column "images": OpenRLHF would load them.
    yield {"prompt": without_image_tags(observation), "label": label.text(), "datasource": label.split}


def _without_hidden_details(result: JudgeResult, problem: Problem) -> JudgeResult:
    """The result without what it tells of tests that the statement does not show."""
    tests = problem.coverage(result.coverage)
    kept = [
        test if tests[position].sample else replace(test, detail="")
        for position, test in enumerate(result.tests)
    ]
    return replace(result, tests=tuple(kept))


def _supervised(config: LaunchConfig, problems: ProblemSet) -> list[dict[str, Any]]:
    """A conversation for each problem with a Python program that is labelled correct."""
    env = make_environment(config.agent, problems, None, "eval", None)
    rows = []
    for problem in problems:
        correct = [s for s in problem.submissions if s.expected == (Outcome.CORRECT,)]
        python = next((s.program for s in correct if s.language == "python"), None)
        if python is not None:
            observation, _ = env.reset(seed=config.rl.seed, options={"problem_id": problem.id})
            messages = [
                {"role": "user", "content": without_image_tags(observation)},
                {"role": "assistant", "content": fenced(python)},
            ]
            rows.append({"messages": messages})
    env.close()
    return rows


def require_shown(observation: str, prompt: str, problem_id: str) -> None:
    """`UserError` when a prompt is not the first observation of its environment."""
    if without_image_tags(observation).strip() not in prompt:
        raise UserError(
            f"the prompt of problem {problem_id!r} is not what its environment shows now; export the prompts "
            "again with this configuration"
        )


def without_image_tags(text: str) -> str:
    """Text that OpenRLHF does not split at `<image>`, as if a picture stood there; statements hold it."""
    return text.replace("<image>", "[image]")
