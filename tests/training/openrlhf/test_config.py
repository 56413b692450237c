"""Configurations of a launch: the examples load, and what cannot work is refused with the field named."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cef_env.errors import UserError
from cef_env.training.openrlhf.config import load_launch, presets
from cef_env.training.openrlhf.launch import launch, require_model, rl_fields

WHOLE: dict[str, Any] = {
    "name": "run",
    "model": "owner/model",
    "run": "/shared/run",
    "coverages": {"low": 2, "high": "inf"},
    "problems": {"train": "builtin:easy?count=2"},
    "environment": {"setting": "tool_use"},
    "cluster": {"nodes": 1, "gpus_per_node": 8, "engines": 8},
}


def written(folder: Path, change: dict[str, Any]) -> str:
    """The path of a configuration with some keys replaced; dotted keys reach into sections."""
    data = yaml.safe_load(yaml.safe_dump(WHOLE))
    for name, value in change.items():
        *path, last = name.split("/")
        place = data
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    path_ = folder / "config.yaml"
    path_.write_text(yaml.safe_dump(data))
    return str(path_)


def test_there_is_an_example_for_each_model_and_setting() -> None:
    assert presets() == [
        *(f"cwm-32b-{setting}" for setting in ("agentic", "reasoning", "tool-use")),
        *(f"qwen2.5-7b-{setting}" for setting in ("agentic", "reasoning", "reasoning-repair", "tool-use")),
    ]
    for name in presets():
        config = load_launch(name)
        assert config.name == name
        assert config.coverages == {"low": 3, "high": None}
        repair = name.endswith("-repair")
        setting = name.removesuffix("-repair").split("-", 2)[2].replace("-", "_")
        assert config.environment.setting == setting
        assert (config.rl.repair_share > 0) is repair


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rollouts": {}}, "rollouts"),
        ({"rl/learning_rat": 1e-6}, "rl.learning_rat"),
        ({"openrlhf/rl": {"train.foo": 1}}, "rl.train.foo is no field of openrlhf.cli.train_ppo_ray"),
        ({"openrlhf/rl": {"vllm.num_engine": 1}}, "did you mean vllm.num_engines"),
        ({"openrlhf/sft": {"actor.optim": "adam"}}, "sft.actor.optim is no field of openrlhf.cli.train_sft"),
        ({"openrlhf/rl": {"use_ms": "yes"}}, "rl.use_ms is a switch"),
        ({"openrlhf/rl": {"ds.zpg": True}}, "rl.ds.zpg needs a value"),
        ({"cluster/engines": 4}, "engines 4 x tensor_parallel 1 = 4 GPUs, but nodes 1 x gpus_per_node 8 = 8"),
        ({"cluster/tensor_parallel": 3}, "tensor_parallel 3 must divide gpus_per_node 8"),
        ({"cluster/train_nodes": 1}, "must add up"),
        ({"cluster": {"nodes": 3, "engines": 8, "train_nodes": 1}}, "must add up"),
        ({"rl/batch_size": 500}, "rl.batch_size 500"),
        ({"rl/batch_size": 4}, "multiple of the 8 training processes"),
        ({"rl/ring_attention": 3}, "rl.ring_attention 3"),
        ({"rl/tokens_per_gpu": 100}, "rl.tokens_per_gpu 100"),
        ({"rl/estimator": "gae"}, "rl.estimator"),
        ({"rl/clip": [0.2]}, "rl.clip"),
        ({"rollout/samples": 1}, "rollout.samples"),
        ({"rl/repair_share": 0.5}, "rl.repair_share: a repair is one message"),
        ({"rl/repair_share": 1, "environment/setting": "reasoning"}, "rl.repair_share"),
        (
            {"rl/repair_share": 0.5, "environment": {"setting": "reasoning", "judged_coverage": "inf"}},
            "rl.repair_share: a failure is shown by the tests of the run",
        ),
        ({"environment/setting": "tools"}, "environment.setting"),
        ({"environment/arguments": {"max_turn": 3}}, "arguments.max_turn"),
        ({"environment/arguments": {"coverage": 3}}, "arguments.coverage"),
        ({"environment/turn_tokens": 20_000}, "environment.turn_tokens 20000"),
        ({"environment/judged_coverage": 0}, "environment.judged_coverage"),
        ({"coverages": {"low": 3, "high": 3}}, "coverages"),
        ({"coverages": {"middle": 3}}, "coverages.middle"),
        ({"coverages": {}}, "coverages"),
        ({"reward": {"kind": "discrete"}}, "reward"),
        ({"reward": {"kind": "discrete", "levels": [1, 4]}}, "level 4 needs tests that coverages.low = 2"),
        ({"reward": {"levels": [1]}}, "levels and weights belong to"),
        ({"reward": {"kind": "continuous", "levels": [1], "weights": [1, 2]}}, "one for each"),
        ({"judge/backend": "slurm"}, "judge.backend"),
        ({"run": "runs/here"}, "run: use an absolute path"),
        ({"name": "a b"}, "name"),
        ({"sft": {}, "environment/setting": "agentic"}, "sft.dataset"),
        ({"sft": {"batch_size": 7}}, "sft.batch_size 7"),
        ({"sft": {}, "cluster": {"nodes": 2, "engines": 16}}, "cluster.hostfile"),
    ],
)
def test_a_mistake_is_named_in_one_line(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError) as error:
        load_launch(written(tmp_path, change))
    assert named in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["huge", "nowhere.yaml"])
def test_an_unknown_example_or_file_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=name):
        load_launch(name)


def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path) -> None:
    for text, named in (("a: [", "not YAML"), ("- a", "keys and values"), ("", "keys and values")):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(UserError, match=named):
            load_launch(str(tmp_path / "bad.yaml"))


@pytest.mark.parametrize("field", ["vllm.num_engines", "actor.num_nodes", "data.max_len", "ckpt.output_dir"])
def test_a_field_that_follows_from_other_keys_cannot_be_set(tmp_path: Path, field: str) -> None:
    config = load_launch(written(tmp_path, {"openrlhf/rl": {field: 1}}))
    with pytest.raises(UserError, match=rf"openrlhf\.rl\.{field}"):
        launch(config, tmp_path, "config.yaml")


def test_other_fields_replace_the_defaults(tmp_path: Path) -> None:
    given = {"ds.zero_stage": 2, "ds.packing_samples": False, "reward.clip_range": [-1, 1]}
    fields = rl_fields(load_launch(written(tmp_path, {"openrlhf/rl": given})), "low")
    assert {name: fields[name] for name in given} == given


def test_a_missing_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    require_model("Qwen/Qwen2.5-7B-Instruct")
    for model in (str(tmp_path / "nothing"), "qwen", "./model"):
        with pytest.raises(UserError, match="key model"):
            require_model(model)
    with pytest.raises(UserError, match=r"config\.json"):
        require_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    require_model(str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE"):
        require_model("nobody/nothing")
