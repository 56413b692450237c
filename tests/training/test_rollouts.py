"""The batch of a step: what is drawn again, what repairs show, what answers earn. The judge is real."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from cef_env.agents import Message, Reply
from cef_env.agents.transformers_agent import TransformersAgent, load_model
from cef_env.envs.text import fenced
from cef_env.judge import Judge, Outcome
from cef_env.problems import builtin
from cef_env.training.config import Config
from cef_env.training.hardware import Hardware
from cef_env.training.metrics import describe_batch
from cef_env.training.rollouts import Batch, Failure, Rollouts, in_turn
from tests.training.tiny import tiny

CPU = Hardware(torch.device("cpu"), bfloat16=False)


class Writer(TransformersAgent):
    """A model whose answers are replaced by programs: `choose(prompt, rng)` for each conversation."""

    def __init__(self, warm_start: Path, choose: Callable[[str, random.Random], str]) -> None:
        super().__init__(*load_model(warm_start))
        self.choose = choose
        self.prompts: list[str] = []

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        rng = random.Random(seed)
        replies = []
        for messages in conversations:
            self.prompts.append(messages[0]["content"])
            text = fenced(self.choose(messages[0]["content"], rng))
            replies.append(Reply(text, (5, 6), (7, 8), (-0.5, -0.5)))
        return replies


def solutions(config: Config) -> dict[str, Any]:
    """Compositions of the training problems by statement."""
    count = config.rl.steps * config.rl.problems_per_step * (1 + config.rl.max_redraws)
    ids = builtin.load("train", count=count, seed=config.seed).ids
    return {found.statement: found for found in map(builtin.composition, ids)}


def statement(prompt: str) -> str:
    return prompt.split("\nAnswer with")[0].split("\nThis program failed")[0].rstrip() + "\n"


def rollouts(config: Config, agent: TransformersAgent, judge: Judge, coverage: int | None = 2) -> Rollouts:
    return Rollouts(config, coverage, agent, judge, CPU)


def mixed(config: Config) -> Callable[[str, random.Random], str]:
    """Right or wrong by chance; a repair is right when the prompt holds a failed program."""
    by_statement = solutions(config)

    def choose(prompt: str, rng: random.Random) -> str:
        found = by_statement[statement(prompt)]
        return rng.choice([found.brute_force, "print('wrong')"])

    return choose


def test_groups_of_equal_reward_are_drawn_again_with_new_problems_within_the_bound(
    warm_start: Path, judge: Judge
) -> None:
    config = tiny(rl={"max_redraws": 2, "problems_per_step": 3, "group_size": 4})
    by_statement = solutions(config)
    hopeless = set(list(by_statement)[:2])  # of the three problems of step 0

    def choose(prompt: str, rng: random.Random) -> str:
        found = by_statement[statement(prompt)]
        if found.statement in hopeless:
            return "print('wrong')"
        return rng.choice([found.brute_force, "print('wrong')"])

    agent = Writer(warm_start, choose)
    batch = rollouts(config, agent, judge).step(0)
    assert batch.equal >= 2
    assert batch.redrawn >= 2
    assert len(batch.learnt) == 12
    groups = [batch.learnt[start : start + 4] for start in range(0, 12, 4)]
    assert all(len({t.problem_id for t in group}) == 1 for group in groups)
    assert not hopeless & {builtin.composition(group[0].problem_id).statement for group in groups}
    assert [t.problem_id for t in batch.answers[:4]] == [builtin.load("train", count=1).ids[0]] * 4

    everything_fails = Writer(warm_start, lambda prompt, rng: "print('wrong')")
    batch = rollouts(config, everything_fails, judge).step(0)
    assert batch.redrawn == 6
    assert len(batch.learnt) == 12


def test_repair_groups_show_failures_of_the_same_batch_and_are_answered_in_it(
    warm_start: Path, judge: Judge
) -> None:
    config = tiny(rl={"problems_per_step": 3, "group_size": 4, "repair_share": 0.34})
    by_statement = solutions(config)

    def choose(prompt: str, rng: random.Random) -> str:
        found = by_statement[statement(prompt)]
        return found.brute_force if "This program failed" in prompt else "print('wrong')"

    agent = Writer(warm_start, choose)
    batch = rollouts(config, agent, judge).step(0)
    assert len(batch.answers) == 8
    assert len(batch.repairs) == 4
    assert batch.learnt == [*batch.answers, *batch.repairs]
    (prompt,) = set(agent.prompts[8:])
    assert "print('wrong')" in prompt
    assert "First failing test: wrong_answer" in prompt
    assert statement(prompt) in {statement(text) for text in agent.prompts[:8]}
    row = describe_batch(batch, 4, repair=True)
    assert (row["pass_rate"], row["fix_rate"], row["repair_groups"]) == (0, 1, 1)
    assert row["reward"] == 0  # of answers to problems alone


def test_a_batch_without_a_failure_has_no_repair_and_no_fix_rate(warm_start: Path, judge: Judge) -> None:
    config = tiny(rl={"repair_share": 0.5})
    by_statement = solutions(config)
    agent = Writer(warm_start, lambda prompt, rng: by_statement[statement(prompt)].brute_force)
    batch = rollouts(config, agent, judge).step(0)
    assert not batch.repairs
    assert describe_batch(batch, config.rl.group_size, repair=True)["fix_rate"] is None


def test_a_failure_that_does_not_fit_the_context_is_passed_over_and_counted(
    warm_start: Path, judge: Judge
) -> None:
    config = tiny(rl={"repair_share": 0.5})
    agent = Writer(warm_start, lambda prompt, rng: f"print('wrong')  # {'long ' * 400}{rng.random()}")
    batch = rollouts(config, agent, judge).step(0)
    assert not batch.repairs
    assert batch.too_long == 3


def test_a_step_is_the_same_whatever_was_drawn_before_it(
    warm_start: Path, judge: Judge, tmp_path: Path
) -> None:
    config = tiny(rl={"max_redraws": 1, "repair_share": 0.5, "group_size": 4, "steps": 3})

    def drawn(steps: Sequence[int], instrument: Judge) -> tuple[Batch, list[str]]:
        agent = Writer(warm_start, mixed(config))
        source = rollouts(config, agent, instrument)
        for step in steps:
            agent.prompts.clear()
            batch = source.step(step)
        return batch, agent.prompts

    with Judge(cache=tmp_path / "judge.sqlite") as instrument:
        batch, prompts = drawn([0, 1, 2], instrument)
        again, prompts_again = drawn([2], instrument)
    assert prompts == prompts_again
    assert [t.reward for t in batch.learnt] == [t.reward for t in again.learnt]
    assert batch.repairs


@pytest.mark.parametrize(
    ("reward", "earned"),
    [
        ("coverage", 0.0),
        ({"kind": "discrete", "levels": [2, 4, "inf"], "weights": [2, 1, 1]}, 0.75),
        ({"kind": "discrete", "levels": [2, "inf"]}, 0.5),
    ],
)
def test_answers_earn_what_the_config_names(
    reward: Any, earned: float, warm_start: Path, judge: Judge
) -> None:
    """A brute force that is too slow passes all but the tests that need the efficient program."""
    config = tiny(rl={"reward": reward, "problems_per_step": 4, "group_size": 2, "steps": 1})
    by_statement = solutions(config)
    agent = Writer(warm_start, lambda prompt, rng: by_statement[statement(prompt)].brute_force)
    answers = rollouts(config, agent, judge, coverage=None).step(0).answers
    slow = [t for t in answers if t.outcome is Outcome.OPTIMIZATION_FAILURE]
    assert slow
    assert all(t.reward == pytest.approx(earned) for t in slow)
    assert all(t.reward == pytest.approx(1) for t in answers if t.outcome is Outcome.CORRECT)


def test_continuous_shaping_gives_a_slow_program_a_part(warm_start: Path, judge: Judge) -> None:
    config = tiny(rl={"reward": "continuous", "problems_per_step": 4, "group_size": 2, "steps": 1})
    by_statement = solutions(config)
    agent = Writer(warm_start, lambda prompt, rng: by_statement[statement(prompt)].brute_force)
    answers = rollouts(config, agent, judge, coverage=None).step(0).answers
    slow = [t.reward for t in answers if t.outcome is Outcome.OPTIMIZATION_FAILURE]
    assert slow
    assert all(0.5 < reward < 1 for reward in slow)


def test_failures_take_turns_by_problem_and_are_distinct() -> None:
    result: Any = None
    failures = [Failure(id_, f"p{i % 5}", result) for id_ in ("a", "b", "c") for i in range(10)]
    order = in_turn(failures, random.Random(0))
    assert len({(f.problem_id, f.program) for f in order}) == len(order) == 15
    for turn in range(5):
        assert {f.problem_id for f in order[3 * turn : 3 * turn + 3]} == {"a", "b", "c"}
    assert in_turn(failures, random.Random(0)) == order
    assert in_turn(failures, random.Random(1)) != order
