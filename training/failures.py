"""Failures for the warm start: labelled programs that fail, judged once and put as `cef/Repair-v0` puts them.

Only a model that has read such prompts can answer them; a pretrained one has. The answers are drawn in
`data.py`.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from cef_env.envs.repair import RepairEnv
from cef_env.errors import UserError
from cef_env.files import write_atomic
from cef_env.judge import Judge
from cef_env.problems import builtin
from cef_env.training.config import Config
from cef_env.training.data import Shown

POOL_SEED = 7_919
"""Keeps the problems of the pool apart from those of RL, which are drawn with the run's own seed."""


def failure_pool(config: Config, folder: Path, judge: Judge | None) -> list[Shown]:
    """`sft.repair_pool` failures of problems of the train split, half of them at each coverage.

    Made once and kept in `folder/failures.jsonl`: CPU times are in the prompts, and a resumed run must read
    the same. Raises `UserError` when that file is damaged.
    """
    path = folder / "failures.jsonl"
    if not path.exists():
        with nullcontext(judge) if judge is not None else Judge() as instrument:
            made = _make(config, instrument)
        write_atomic(path, "".join(json.dumps(asdict(shown)) + "\n" for shown in made))
    try:
        return [Shown(**json.loads(line)) for line in path.read_text().splitlines()]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged; delete its folder and run again") from error


def _make(config: Config, judge: Judge) -> list[Shown]:
    count, seed = config.sft.repair_pool, config.seed + POOL_SEED
    problems = builtin.load("train", count=count, seed=seed, graded=config.graded)
    coverages = list(config.coverages.values())

    def show(index: int) -> Shown:
        env = RepairEnv(coverages[index % len(coverages)], problems, judge)
        prompt, info = env.reset(seed=config.seed + index)
        return Shown(info["problem_id"], prompt)

    with ThreadPoolExecutor(judge.workers) as threads:
        return list(threads.map(show, range(config.sft.repair_pool)))
