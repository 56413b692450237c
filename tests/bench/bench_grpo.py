"""Where the time of one GRPO step goes: 96 answers (12 problems x 8), sampled, judged, learned from.

    python tests/bench/bench_grpo.py [CHECKPOINT]

With a checkpoint of `cef reproduce` (its sft/model) the answers are real programs, which is what costs time;
without one, a warm start is trained first. Prints medians over the steps of each coverage.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import gymnasium as gym
import torch
from rich.console import Console
from rich.table import Table

from cef_env.agents import rollout
from cef_env.agents.transformers_agent import TransformersAgent, load_model
from cef_env.judge import Judge
from cef_env.problems import builtin
from cef_env.training import load_config
from cef_env.training.hardware import Hardware
from cef_env.training.learner import Learner
from cef_env.training.sft import train_sft
from cef_env.ui import Reporter

STEPS = 8


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times.append(time.perf_counter() - start)


class TimedAgent(TransformersAgent):
    """The agent of training, with the time that sampling takes."""

    times: list[float]

    def act_batch(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        with timed(self.times):
            return super().act_batch(*args, **kwargs)


def main() -> None:
    torch.set_num_threads(1)
    config = load_config("laptop")
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            checkpoint = Path(sys.argv[1])
        else:
            with Reporter().bar("sft", config.sft.steps) as progress:
                checkpoint = train_sft(config, Path(folder) / "sft", progress)
        table = Table("coverage", "sample s", "episodes s", "update s", "step s", "answers", "distinct")
        for name, coverage in config.coverages.items():
            model, tokenizer = load_model(checkpoint)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)  # the policy stays the warm start
            hardware = Hardware.choose(config.precision)
            model.to(hardware.device)
            pad, budget = tokenizer.pad_token_id, config.max_new_tokens
            learner = Learner(model, None, optimizer, config.rl, pad, budget, hardware)
            agent = TimedAgent(model, tokenizer, max_new_tokens=config.max_new_tokens)
            agent.times = []
            count, group = config.rl.problems_per_step, config.rl.group_size
            problems = builtin.load("train", count=STEPS * count, seed=123)
            episodes: list[float] = []
            updates: list[float] = []
            distinct: list[int] = []
            with Judge(cache=Path(folder) / f"{name}.sqlite") as judge:
                options = {"coverage": coverage, "problems": problems, "judge": judge}
                envs = [
                    gym.make("cef/Reasoning-v0", disable_env_checker=True, **options)
                    for _ in range(count * group)
                ]
                for step in range(STEPS):
                    ids = [
                        id_ for id_ in problems.ids[step * count : (step + 1) * count] for _ in range(group)
                    ]
                    with timed(episodes):
                        trajectories = rollout(envs, agent, ids, seed=step)
                    with timed(updates):
                        learner.update(trajectories, seed=step)
                    distinct.append(len({(t.problem_id, str(t.replies[0].text)) for t in trajectories}))
            steps = [a + b for a, b in zip(episodes, updates, strict=True)]
            figures = [f"{median(values):.2f}" for values in (agent.times, episodes, updates, steps)]
            table.add_row(name, *figures, str(count * group), f"{median(distinct):.0f}")
        Console().print(table)


if __name__ == "__main__":
    main()
