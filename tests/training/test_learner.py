"""One update: the objective against formulas written out, clipping, accumulation, LoRA, faults."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from cef_env.agents import Trajectory
from cef_env.agents.base import Reply
from cef_env.agents.transformers_agent import load_model
from cef_env.errors import InstrumentError
from cef_env.judge import Judge, Outcome
from cef_env.training import lora
from cef_env.training.advantages import ADVANTAGES, dr_grpo, group_norm, rloo
from cef_env.training.data import answer_logprobs, pad_batch
from cef_env.training.grpo import train_rl
from cef_env.training.hardware import Hardware
from cef_env.training.learner import Learner
from cef_env.training.model import save_checkpoint
from cef_env.training.rl_config import LoRAConfig
from tests.training.tiny import quiet, tiny, trajectories_of

CPU = Hardware(torch.device("cpu"), bfloat16=False)
GROUP = [1.0, 0.0, 0.0]
rewards_of_groups = st.lists(
    st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda row: max(row) - min(row) > 1e-5),
    min_size=1,
    max_size=5,
).map(lambda rows: torch.tensor(rows, dtype=torch.float64))


def learner(model: Any, optimizer: Any = None, reference: Any = None, **rl: Any) -> Learner:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    return Learner(model, reference, optimizer, tiny(rl=rl).rl, pad=0, budget=24, hardware=CPU)


def weights(model: Any) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.state_dict().values()])


@given(rewards_of_groups)
def test_group_norm_has_mean_zero_and_unit_deviation_in_each_group(rewards: torch.Tensor) -> None:
    advantages = group_norm(rewards)
    assert torch.allclose(advantages.mean(1), torch.zeros(1, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(advantages.std(1, correction=0), torch.ones(1, dtype=torch.float64), atol=1e-6)


@given(rewards_of_groups)
def test_dr_grpo_is_the_reward_above_the_mean_and_rloo_above_that_of_the_others(
    rewards: torch.Tensor,
) -> None:
    for row, centred, left_out in zip(rewards, dr_grpo(rewards), rloo(rewards), strict=True):
        for i, reward in enumerate(row):
            others = torch.cat([row[:i], row[i + 1 :]])
            assert centred[i] == pytest.approx(float(reward - row.mean()), abs=1e-12)
            assert left_out[i] == pytest.approx(float(reward - others.mean()), abs=1e-12)


@pytest.mark.parametrize("kind", ADVANTAGES.values())
@pytest.mark.parametrize("reward", [0.0, 1.0, 2 / 3, 0.1])
def test_advantages_of_equal_rewards_are_zero(
    kind: Callable[[torch.Tensor], torch.Tensor], reward: float
) -> None:
    assert (kind(torch.full((2, 7), reward)) == 0).all()


def plain_grpo(model: Any, optimizer: Any, trajectories: list[Trajectory], group: int, pad: int) -> None:
    """On-policy GRPO as its formula stands, which the defaults must equal bit for bit."""
    rewards = torch.tensor([float(t.reward) for t in trajectories]).view(-1, group)
    centred = rewards - rewards.mean(1, keepdim=True)
    std = rewards.std(1, keepdim=True, correction=0)
    advantages = torch.where(std > 0, centred / std.clamp(min=1e-6), torch.zeros_like(centred)).view(-1)
    kept = [i for i in range(len(trajectories)) if advantages[i] != 0]
    replies = [trajectories[i].replies[0] for i in kept]
    ids, mask = pad_batch([r.prompt_ids for r in replies], [r.token_ids for r in replies], pad)
    mask = mask[:, 1:]
    loss = -(advantages[kept][:, None] * answer_logprobs(model, ids) * mask).sum() / mask.sum()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def test_the_defaults_are_plain_on_policy_grpo_bit_for_bit(warm_start: Path) -> None:
    models = [load_model(warm_start)[0] for _ in range(2)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in models]
    ours = learner(models[0], optimizers[0])
    for step in range(5):
        batch = trajectories_of(models[1], [1, 0, 0, 1, 1, 1, 0, 1, 0], seed=step)
        ours.update(batch, seed=step)
        plain_grpo(models[1], optimizers[1], batch, 3, 0)
        assert torch.equal(weights(models[0]), weights(models[1]))


def test_an_update_raises_the_probability_of_rewarded_answers(warm_start: Path) -> None:
    model, _ = load_model(warm_start)
    batch = trajectories_of(model, [1, 0, 0, 0])

    def log_p(trajectory: Trajectory) -> float:
        reply = trajectory.replies[0]
        ids, mask = pad_batch([reply.prompt_ids], [reply.token_ids], 0)
        return float((answer_logprobs(model, ids).detach() * mask[:, 1:]).sum())

    before = log_p(batch[0])
    learner(model, group_size=4).update(batch, seed=0)
    assert log_p(batch[0]) > before


@pytest.mark.parametrize("advantage", ADVANTAGES)
@pytest.mark.parametrize("passes", [{}, {"epochs": 2, "minibatches": 2}])
def test_accumulated_gradients_are_those_of_the_whole_minibatch(
    warm_start: Path, advantage: str, passes: dict[str, int]
) -> None:
    found = []
    for size in (None, 2):
        model, _ = load_model(warm_start)
        batch = trajectories_of(model, [*GROUP, 0.5, 0.2, 0.9])
        learner(model, advantage=advantage, micro_batch_size=size, **passes).update(batch, seed=1)
        found.append(weights(model))
    assert torch.allclose(*found, atol=1e-6)
    start, _ = load_model(warm_start)
    assert not torch.allclose(found[0], weights(start), atol=1e-6)


def test_dr_grpo_divides_by_the_budget_and_not_by_the_length_of_answers(warm_start: Path) -> None:
    moved = []
    for budget in (24, 48):
        model, _ = load_model(warm_start)
        before = weights(model)
        one = learner(model, torch.optim.SGD(model.parameters(), lr=1e-2), advantage="dr_grpo", clip_norm=1e9)
        one = Learner(one.model, None, one.optimizer, one.rl, 0, budget, CPU)
        one.update(trajectories_of(model, GROUP), seed=0)
        moved.append(float((weights(model) - before).norm()))
    assert moved[0] / moved[1] == pytest.approx(2, rel=1e-2)


def test_tokens_beyond_the_clip_range_stop_moving(warm_start: Path) -> None:
    """With a clip range that the first step leaves at once, later passes find every token clipped."""
    model, _ = load_model(warm_start)
    narrow = learner(model, epochs=2, clip_low=1e-7, clip_high=1e-7)
    batch = trajectories_of(model, GROUP)
    clipped = narrow.update(batch, seed=0)["clip_fraction"]
    assert clipped is not None
    assert clipped > 0.4  # of two passes; the first clips nothing
    wide, _ = load_model(warm_start)
    assert learner(wide, epochs=2, clip_low=0.99, clip_high=1e9).update(batch, seed=0)["clip_fraction"] == 0


def test_several_passes_move_further_than_one(warm_start: Path) -> None:
    gains = []
    for epochs in (1, 3):
        model, _ = load_model(warm_start)
        before = weights(model)
        learner(model, epochs=epochs, clip_high=10.0, clip_low=0.9).update(trajectories_of(model, GROUP), 0)
        gains.append(float((weights(model) - before).norm()))
    assert gains[1] > 2 * gains[0]


@pytest.mark.parametrize("epochs", [1, 2])
def test_wrong_log_probs_of_the_sampler_are_an_instrument_fault(warm_start: Path, epochs: int) -> None:
    model, _ = load_model(warm_start)
    before = weights(model)
    batch = trajectories_of(model, GROUP)
    reply = batch[0].replies[0]
    wrong = Reply("", reply.prompt_ids, reply.token_ids, tuple(value - 0.5 for value in reply.logprobs))
    batch[0] = Trajectory("p", (), 1, Outcome.CORRECT, replies=(wrong,))
    with pytest.raises(InstrumentError, match="differ from the sampler"):
        learner(model, epochs=epochs).update(batch, seed=0)
    assert torch.equal(weights(model), before)


def test_the_kl_term_is_zero_at_the_reference_and_positive_away_from_it(warm_start: Path) -> None:
    model, _ = load_model(warm_start)
    reference, _ = load_model(warm_start)
    with_kl = learner(model, torch.optim.SGD(model.parameters(), lr=1.0), reference, kl_coef=0.1)
    assert with_kl.update(trajectories_of(model, GROUP), seed=0)["kl"] == pytest.approx(0, abs=1e-6)
    after = with_kl.update(trajectories_of(model, GROUP), seed=0)["kl"]
    assert after is not None
    assert after > 0


def test_without_a_kl_term_kl_is_not_measured_rather_than_zero(warm_start: Path) -> None:
    model, _ = load_model(warm_start)
    assert learner(model).update(trajectories_of(model, GROUP), seed=0)["kl"] is None


def test_bfloat16_learns_and_agrees_with_a_sampler_in_bfloat16(warm_start: Path) -> None:
    model, _ = load_model(warm_start)
    hardware = Hardware(torch.device("cpu"), bfloat16=True)
    with hardware.autocast():
        batch = trajectories_of(model, GROUP)
    before = weights(model)
    one = learner(model)
    row = Learner(model, None, one.optimizer, one.rl, 0, 24, hardware).update(batch, seed=0)
    assert row["grad_norm"]
    assert all(parameter.dtype is torch.float32 for parameter in model.parameters())
    assert not torch.equal(weights(model), before)


def test_lora_starts_as_the_model_and_merges_into_what_it_has_become(
    warm_start: Path, tmp_path: Path
) -> None:
    model, tokenizer = load_model(warm_start)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    ids = torch.arange(40).view(2, 20)
    with torch.no_grad():
        plain = answer_logprobs(model, ids)
        lora.attach(model, LoRAConfig(rank=2), seed=0)
        assert torch.equal(answer_logprobs(model, ids), plain)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1.0)
    for _ in range(3):
        learner(model, optimizer).update(trajectories_of(model, GROUP), seed=0)
    with torch.no_grad():
        attached = answer_logprobs(model, ids)
    lora.merge(model)
    save_checkpoint(tmp_path / "model", model, tokenizer)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    with torch.no_grad():
        assert torch.allclose(answer_logprobs(loaded, ids), attached, atol=1e-4)
    assert not torch.allclose(attached, plain, atol=1e-3)
    merged = loaded.state_dict()
    assert merged.keys() == start.keys()
    changed = {name for name in start if not torch.equal(merged[name], start[name])}
    assert changed == {name for name in start if name.endswith("_proj.weight")}
    for name in changed:
        assert torch.linalg.matrix_rank(merged[name] - start[name], rtol=1e-3) <= 2


def test_an_rl_run_with_lora_leaves_a_checkpoint_with_the_names_of_the_warm_start(
    warm_start: Path, judge: Judge, tmp_path: Path
) -> None:
    config = tiny(rl={"lora": {"rank": 2}, "steps": 1})
    final = train_rl(config, 2, warm_start, tmp_path, judge, quiet)
    names = [set(load_model(path)[0].state_dict()) for path in (warm_start, final)]
    assert names[0] == names[1]
