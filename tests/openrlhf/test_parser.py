"""Every generated line goes through OpenRLHF's own parser and checks; datasets through its own loaders."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cef_env.judge import Judge
from cef_env.training.openrlhf import fields
from cef_env.training.openrlhf.config import load_launch, presets
from cef_env.training.openrlhf.launch import launch
from cef_env.training.openrlhf.prompts import export
from tests.training.openrlhf.test_prompts import config, ignore, problem

pytest.importorskip("openrlhf.utils.agent", reason="needs OpenRLHF; run `make test-openrlhf`")
pytest.importorskip("ray", reason="needs Ray; run `make test-openrlhf`")

from tests.openrlhf.parser import parse

NEEDED = {
    "rl": [
        "--actor.model_name_or_path", "M", "--train.agent_func_path", "a.py",
        "--algo.advantage.estimator", "rloo", "--rollout.n_samples_per_prompt", "2",
        "--vllm.num_engines", "1",
    ],
    "sft": [],
}  # fmt: skip


@pytest.mark.parametrize("name", presets())
def test_every_line_of_every_example_is_accepted(name: str) -> None:
    one = load_launch(name)
    stages = {stage.name: stage.command for stage in launch(one, Path("/launch"), name)}
    assert {"low", "high"} <= set(stages)
    for stage in ("low", "high", *(["sft"] if one.sft else [])):
        words = list(stages[stage])  # type: ignore[index]
        module = next(word for word in words if word.startswith("openrlhf.cli."))
        args, _ = parse(module, words[words.index(module) + 1 :])
        assert args.ckpt.output_dir == f"{one.run}/{stage}/model"
        if stage == "sft":
            continue
        assert args.train.agent_func_path == "agent.py"
        assert args.reward.remote_url == ["agent"]
        assert args.data.max_len == one.rollout.max_length
        assert args.critic.model_name_or_path is None
        # The placement that OpenRLHF makes of it uses exactly the GPUs of the cluster.
        training = args.actor.num_nodes * args.actor.num_gpus_per_node
        engines = args.vllm.num_engines * args.vllm.tensor_parallel_size
        total = one.cluster.nodes * one.cluster.gpus_per_node
        if args.train.colocate_all:
            assert training == engines == total
        else:
            assert args.train.async_enable
            assert training + engines == total
        assert args.rollout.batch_size * args.rollout.n_samples_per_prompt % args.train.batch_size == 0


@pytest.mark.parametrize("command", ["rl", "sft"])
def test_the_fields_we_know_are_those_of_the_parser(command: fields.Command) -> None:
    _, parser = parse(fields.MODULES[command], NEEDED[command])
    switches, values = set(), set()
    for action in parser._actions:
        names = {name.removeprefix("--") for name in action.option_strings if name not in ("-h", "--help")}
        (switches if action.nargs == 0 else values).update(names)
    assert switches == fields.SWITCHES[command]
    assert values == fields.VALUES[command]


def test_the_harness_refuses_what_openrlhf_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(fields.MODULES["rl"], [*NEEDED["rl"], "--pretrain", "M"])
    assert "unrecognized arguments: --pretrain" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse(fields.MODULES["rl"], [*NEEDED["rl"], "--vllm.num_engine", "1"])  # an abbreviation
    with pytest.raises(AssertionError):
        parse(fields.MODULES["rl"], [*NEEDED["rl"], "--train.partial_rollout_enable"])


@pytest.mark.parametrize("setting", ["reasoning", "tool_use", "agentic", "repair"])
def test_openrlhf_reads_the_prompts_as_the_environment_shows_them(
    setting: str, tmp_path: Path, tokenizer: Any, judge: Judge
) -> None:
    from openrlhf.datasets import PromptDataset
    from openrlhf.datasets.utils import blending_datasets

    written = export(config(tmp_path, setting, problem("small", "4", "77")), tmp_path, ignore, judge)
    data = SimpleNamespace(input_key="prompt", label_key="label", apply_chat_template=True)
    strategy = SimpleNamespace(
        args=SimpleNamespace(data=data, use_ms=False), print=ignore, is_rank_0=lambda: False
    )
    for file in written:
        (row,) = (json.loads(line) for line in file.path.read_text().splitlines())
        dataset = PromptDataset(blending_datasets(str(file.path), None, strategy), tokenizer, strategy)
        source, prompt, label, images = dataset[0]
        assert prompt == f"<|im_start|>user\n{row['prompt']}<|im_end|>\n<|im_start|>assistant\n"
        assert (source, label, images) == (row["datasource"], row["label"], None)


def test_the_warm_start_trains_on_the_answers_alone(tmp_path: Path, tokenizer: Any) -> None:
    from openrlhf.datasets import SFTDataset
    from openrlhf.datasets.utils import blending_datasets

    one = config(tmp_path, "reasoning", problem("small", "4", "77"), sft={})
    path = next(file.path for file in export(one, tmp_path, ignore) if file.path.stem == "sft")
    data = SimpleNamespace(input_key="messages", output_key=None, apply_chat_template=True)
    strategy = SimpleNamespace(
        args=SimpleNamespace(data=data, use_ms=False), print=ignore, is_rank_0=lambda: False
    )
    rows = blending_datasets(str(path), None, strategy)
    dataset = SFTDataset(rows, tokenizer, 4096, strategy, num_processors=1, multiturn=True)
    ids, _, mask = dataset[0]
    said = tokenizer.decode(ids[0, 1:][mask[0, :-1].bool()])  # the mask is of what is predicted next
    assert said.rstrip() == "```python\nprint(2 * int(input()))\n```<|im_end|>"
