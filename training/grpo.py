"""GRPO on one machine: reinforcement learning in the setting's environment; in `cef/Repair-v0` where asked.

The loop only: batches come from `rollouts.py`, updates from `learner.py`, numbers from `metrics.py`.
Repeatable and resumable: rollouts, problems and updates derive from (seed, step). For clusters use OpenRLHF
(`training/openrlhf`). Command: `cef train rl WARM_START --out DIR --coverage K --preset CONFIG`.
"""

import time
from pathlib import Path

import torch

from cef_env.agents.transformers_agent import TransformersAgent, load_model
from cef_env.judge import Judge
from cef_env.problems import Coverage
from cef_env.training import lora
from cef_env.training.board import Board
from cef_env.training.config import Config
from cef_env.training.hardware import Hardware
from cef_env.training.learner import Learner
from cef_env.training.metrics import describe_batch
from cef_env.training.model import save_checkpoint
from cef_env.training.rollouts import Rollouts
from cef_env.training.sft import Progress
from cef_env.training.state import TrainState


def train_rl(
    config: Config,
    coverage: Coverage,
    warm_start: Path,
    out: Path,
    judge: Judge,
    progress: Progress,
    tensorboard: bool = False,
) -> Path:
    """One RL run from the warm start; returns the checkpoint directory `out/model`.

    Runs of different coverages with the same seed see the same problems. Continues from `out/state.pt`
    when it is there. `out/log.jsonl` has a row per step, which a resumed run repeats exactly;
    `out/seconds.jsonl` says how long each phase of it took. `tensorboard` also writes the rows to
    `out/tensorboard`.
    """
    final = out / "model"
    if final.exists():
        return final
    out.mkdir(parents=True, exist_ok=True)
    rl = config.rl
    hardware = Hardware.choose(config.precision)
    model, tokenizer = load_model(warm_start)
    if rl.lora is not None:
        lora.attach(model, rl.lora, config.seed)
    model.to(hardware.device)
    reference = load_model(warm_start)[0].to(hardware.device) if rl.kl_coef else None
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rl.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    state = TrainState(out, model, optimizer)
    agent = TransformersAgent(model, tokenizer, rl.temperature, config.max_new_tokens)
    rollouts = Rollouts(config, coverage, agent, judge, hardware)
    learner = Learner(model, reference, optimizer, rl, tokenizer.pad_token_id, config.most_tokens, hardware)
    with Board(out / "tensorboard" if tensorboard else None, state.step) as board:
        for step in range(state.step, rl.steps):
            batch = rollouts.step(step)
            started = time.perf_counter()
            learnt = learner.update(batch.learnt, seed=config.seed * 1_000_003 + step)
            seconds = {**rollouts.seconds, "update": time.perf_counter() - started}
            row = {"step": step, **describe_batch(batch, rl.group_size, rl.repair_groups > 0), **learnt}
            state.log(row, {"step": step, **{phase: round(value, 4) for phase, value in seconds.items()}})
            board.add(step, row, seconds)
            if (step + 1) % rl.save_every == 0 or step + 1 == rl.steps:
                state.save(step + 1)
            progress(step + 1, rl.steps, f"reward {row['reward']:.2f}")
    state.write_log()
    lora.merge(model)
    save_checkpoint(final, model, tokenizer)
    state.discard()
    return final
