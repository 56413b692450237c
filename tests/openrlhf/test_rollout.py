"""From a YAML file to advantages, with OpenRLHF's own rollout: Ray, real vLLM (CPU build), real judge.

Only training and weight sync are missing, which need CUDA. The model is tiny and has learnt, in this test, to
answer one problem now right and now wrong, so that groups have rewards to tell apart.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch

from cef_env.envs.text import extract_program, fenced
from cef_env.problems import jsonl, load
from tests.conftest import double

REASON = "needs OpenRLHF, Ray and a CPU build of vLLM; run `make test-openrlhf`"
ray = pytest.importorskip("ray", reason=REASON)
pytest.importorskip("openrlhf.utils.agent", reason=REASON)
pytest.importorskip("vllm", reason=REASON)

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
CALL = '<tool_call>\n{"name": "python", "arguments": {"code": "print(6 * 7)"}}\n</tool_call>'
ANSWERS = (fenced("print(2 * int(input()))"), fenced("n = input()\nprint(2 * int(n) if len(n) < 10 else 0)"))
"""Right, and right for short inputs only."""
CONFIG = """
name: tiny-{setting}
model: {model}
run: {run}
coverages: {{high: inf}}
problems: {{train: "jsonl:{problems}"}}
environment: {{setting: {setting}, turn_tokens: 128}}
judge: {{workers: 2}}
cluster: {{nodes: 1, gpus_per_node: 1, engines: 1}}
rollout: {{prompts: 4, samples: 4, max_length: 1024}}
rl: {{batch_size: 16, dynamic_sampling: false, tokens_per_gpu: 1024, repair_share: {repair_share}}}
openrlhf:
  rl:
    ds.attn_implementation: eager
    ds.packing_samples: false
    rollout.micro_batch_size: 4
    train.dynamic_batch_enable: false
    vllm.enforce_eager: true
"""


def conversation(tokenizer: Any, prompt: str, setting: str, answer: str) -> tuple[list[int], list[int]]:
    """Prompt and what follows, as the executor lays it out."""
    from cef_env.training.openrlhf.chat import between

    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    said = f"{answer}{tokenizer.eos_token}"
    if setting == "tool_use":
        response = "<tool_response>\n42\n</tool_response>\nMessages left: 7\n"
        said = f"{CALL}{tokenizer.eos_token}{between(tokenizer, response, tokenizer.eos_token_id)}{said}"
    encode = lambda one: tokenizer(one, add_special_tokens=False)["input_ids"]  # noqa: E731
    return encode(text), encode(said)


def failures(config: Any) -> set[str]:
    """The prompts that show how the wrong one of `ANSWERS` failed."""
    from cef_env.judge import Judge
    from cef_env.training.openrlhf.environments import make_environment

    problems = load(config.problems.train)
    with Judge(workers=1) as judge:
        env = make_environment(config.agent.repair, problems, None, "train", judge)
        given = {"program": extract_program(ANSWERS[1])}
        shown = {env.reset(options={"problem_id": id_, **given})[0] for id_ in problems.ids}
        env.close()
    return shown


def teach(folder: Path, answers: dict[str, tuple[str, ...]], setting: str) -> Path:
    """A checkpoint of a tiny Qwen2 that gives each of a prompt's answers about equally often."""
    from tokenizers import AddedToken

    from cef_env.training.config import ModelConfig, SFTConfig, TokenizerConfig
    from cef_env.training.data import answer_logprobs, pad_batch
    from cef_env.training.model import build_model, save_checkpoint, train_tokenizer

    tokenizer = train_tokenizer(TokenizerConfig(vocab_size=300, lines=0, problems=20), SFTConfig(), 0)
    # Whole lines as tokens make conversations of a few dozen tokens.
    texts = [*answers, *ANSWERS, CALL + "\n", "<tool_response>\n42\n</tool_response>\nMessages left: 7\n"]
    lines = dict.fromkeys(line for text in texts for line in text.splitlines(keepends=True) if "\n" in line)
    tokenizer.add_tokens([AddedToken(line, normalized=False) for line in lines])
    config = ModelConfig(
        hidden_size=128, heads=2, kv_heads=2, intermediate_size=256, layers=2, max_length=1024
    )
    model = build_model(config, tokenizer, 0)
    pairs = [
        conversation(tokenizer, prompt, setting, answer)
        for prompt, several in answers.items()
        for answer in several
    ]
    ids, mask = pad_batch([p for p, _ in pairs], [s for _, s in pairs], tokenizer.pad_token_id)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    torch.set_num_threads(1)  # more only wait for each other on matrices this small
    for _ in range(120):
        loss = -(answer_logprobs(model, ids) * mask[:, 1:]).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    save_checkpoint(folder, model, tokenizer)
    return folder


@pytest.fixture(scope="module", autouse=True)
def variables() -> Iterator[None]:
    with patch.dict(os.environ, ENVIRONMENT):
        yield


@pytest.mark.parametrize(("setting", "repair_share"), [("reasoning", 0.5), ("tool_use", 0)])
def test_from_yaml_to_advantages(setting: str, repair_share: float, tmp_path: Path) -> None:
    import json

    import yaml

    from cef_env.training.openrlhf.config import LaunchConfig
    from cef_env.training.openrlhf.launch import rl_fields, words, write
    from cef_env.training.openrlhf.prompts import export
    from tests.openrlhf.parser import parse

    problems, model, folder = tmp_path / "problems.jsonl", tmp_path / "model", tmp_path / "launch"
    jsonl.write(problems, [double(f"small{i}", (1, 3, 30)) for i in range(8)])
    names = {"model": model, "run": tmp_path / "run", "problems": problems}
    text = CONFIG.format(setting=setting, repair_share=repair_share, **names)
    config = LaunchConfig.model_validate(yaml.safe_load(text))
    (written,) = export(config, folder, lambda *_: None)
    prompts = [json.loads(line)["prompt"] for line in written.path.read_text().splitlines()]
    right, wrong = ANSWERS
    # With online fixing, first answers fail more often, so that there is something to repair.
    first = (right, wrong, wrong) if repair_share else ANSWERS
    answers = dict.fromkeys(sorted(set(prompts)), first)
    if repair_share:
        answers |= dict.fromkeys(sorted(failures(config)), ANSWERS)
    teach(model, answers, setting)
    write(config, folder, "config.yaml")
    args, _ = parse("openrlhf.cli.train_ppo_ray", words(rl_fields(config, "high")))
    args.data.prompt_dataset = str(written.path)

    started = time.monotonic()
    variables = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    ray.init(
        num_cpus=2,
        num_gpus=1,  # logical: vLLM runs on the CPU
        object_store_memory=200 << 20,
        include_dashboard=False,
        runtime_env={"working_dir": str(folder), "env_vars": variables},
    )
    try:
        samples, advantages = rollout(args, config.model)
    finally:
        ray.shutdown()
    seconds = time.monotonic() - started

    rewards = [sample.rewards.item() for sample in samples]
    logs = {
        name: sum(float(sample.info[name]) for sample in samples) / len(samples)
        for name in samples[0].info
        if name.startswith("cef_")
    }
    print(f"\n{setting}: {len(samples)} episodes in {seconds:.0f} s, with start")
    print(f"  rewards {rewards}")
    print("  " + ", ".join(f"{name} {value:.2f}" for name, value in logs.items() if value))
    assert len(samples) == 32
    assert logs["cef_error"] == 0.0
    assert logs["cef_judged"] == 1.0
    assert logs["cef_correct"] == pytest.approx(sum(rewards) / 32)
    assert 0 < sum(rewards) < 32
    for sample in samples:
        told, trained = sample.rollout_log_probs[0] != 0, sample.action_mask[0] == 1
        assert trained.any()
        assert not told[~trained].any()
    if setting == "tool_use":
        assert logs["cef_tool_calls"] > 0.5
    else:
        require_repairs(samples, wrong)
    for group in range(8):
        part = slice(4 * group, 4 * group + 4)
        expected = torch.tensor(rewards[part])
        expected = (expected - expected.mean()) / (expected.std() + 1e-9)
        assert torch.tensor(advantages[part]) == pytest.approx(expected, abs=1e-4)
    assert any(advantages)


def require_repairs(samples: list[Any], wrong: str) -> None:
    """Half of the groups asked for a failure; all samples of a group that had one were shown the same."""
    groups = [samples[start : start + 4] for start in range(0, len(samples), 4)]
    told = lambda group, name: sum(float(sample.info[f"cef_{name}"]) for sample in group)  # noqa: E731
    assert sorted(told(group, "repair_asked") for group in groups) == [0] * 4 + [4] * 4
    repaired = 0
    for group in groups:
        (prompt,) = {sample.prompts[0] for sample in group}
        assert told(group, "repair_judged") == (4 if "This program failed" in prompt else 0)
        repaired += "This program failed" in prompt and wrong in prompt
    assert repaired
    original = told(samples, "original_correct") / told(samples, "original_judged")
    fixed = told(samples, "repair_correct") / told(samples, "repair_judged")
    print(f"  {repaired} of 4 first answers repaired; pass rate {original:.2f}, fix rate {fixed:.2f}")


def rollout(args: Any, model: str) -> tuple[list[Any], list[float]]:
    """Two batches by OpenRLHF's generator and engine, and its advantage of each episode."""
    from openrlhf.datasets import PromptDataset
    from openrlhf.datasets.utils import blending_datasets
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
    from openrlhf.trainer.ray import create_vllm_engines
    from openrlhf.utils.utils import get_tokenizer

    from tests.openrlhf.parser import stand_ins

    engines = create_vllm_engines(
        args.vllm.num_engines, args.vllm.tensor_parallel_size, model, args.train.seed, False,
        args.vllm.enable_prefix_caching, args.vllm.enforce_eager, args.data.max_len, None, 0.5, False,
        "processed_logprobs", agent_func_path=args.train.agent_func_path,
    )  # fmt: skip
    args.vllm.enable_sleep = False  # a CPU engine cannot
    strategy = SimpleNamespace(args=args, print=print, is_rank_0=lambda: True)
    tokenizer = get_tokenizer(model, None, "left", strategy)
    data = PromptDataset(blending_datasets(args.data.prompt_dataset, None, strategy), tokenizer, strategy)
    loader = torch.utils.data.DataLoader(data, 1, shuffle=False, collate_fn=data.collate_fn)
    generator = SamplesGenerator(strategy, loader, None, tokenizer, engines)
    options = {"max_len": args.data.max_len, "max_new_tokens": args.rollout.max_new_tokens}
    samples = [one for _ in range(2) for one in generator.generate_samples(**options)[0]]
    models = ("openrlhf.models.actor", "openrlhf.models.model")
    with stand_ins("deepspeed", "openrlhf.trainer.ray.launcher", *models):
        from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
    maker = RemoteExperienceMaker(None, None, None, None, SimpleNamespace(value=0.0), strategy, tokenizer)
    advantages = []
    experiences = maker.split_rollout_samples(samples)
    for one in experiences:
        one.action_log_probs, one.kl = one.rollout_log_probs, torch.zeros_like(one.rollout_log_probs)
    for one in maker.compute_advantages_and_returns(experiences):
        for row, mask in zip(one.advantages, one.action_mask.bool(), strict=True):
            assert row[mask].unique().numel() == 1  # one advantage for all tokens of an episode
            advantages.append(row[mask][0].item())
    return samples, advantages
