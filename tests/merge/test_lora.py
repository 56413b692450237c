"""Adapters merged by putting ranks side by side: the exact average of the full updates."""

import json
import math
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cef_env.errors import UserError
from cef_env.merge import merge_adapters
from cef_env.merge.lora import RANKS

PREFIX = "base_model.model.model.layers.{}.{}"
SHAPES = {"self_attn.q_proj": (24, 16), "mlp.up_proj": (40, 16)}  # out, in


def make(path: Path, seed: int, rank: int, modules=tuple(SHAPES), dtype=torch.float32, **config) -> Path:
    """An adapter as PEFT saves it, of two layers."""
    torch.manual_seed(seed)
    path.mkdir()
    tensors = {}
    for layer in range(2):
        for module in modules:
            out, into = SHAPES[module]
            at = PREFIX.format(layer, module)
            tensors[f"{at}.lora_A.weight"] = torch.randn(rank, into).to(dtype)
            tensors[f"{at}.lora_B.weight"] = torch.randn(out, rank).to(dtype)
    save_file(tensors, path / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 2 * rank, "bias": "none",
        "target_modules": [module.split(".")[-1] for module in modules], "base_model_name_or_path": "base",
        **config,
    }  # fmt: skip
    (path / "adapter_config.json").write_text(json.dumps(settings))
    return path


def update(path: Path, layer: int, module: str) -> torch.Tensor:
    """s * B A in float64, by the plain rule: rank and alpha of the config, for adapters without patterns."""
    config = json.loads((path / "adapter_config.json").read_text())
    tensors = load_file(path / "adapter_model.safetensors")
    at = PREFIX.format(layer, module)
    if f"{at}.lora_A.weight" not in tensors:
        return torch.zeros(SHAPES[module], dtype=torch.float64)
    a, b = (tensors[f"{at}.lora_{side}.weight"].double() for side in "AB")
    rank = config["r"]
    return b @ a * config["lora_alpha"] / (math.sqrt(rank) if config.get("use_rslora") else rank)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rslora", [False, True])
def test_every_alpha_is_the_average_of_the_full_updates(tmp_path, dtype, rslora):
    low = make(tmp_path / "low", 0, 3, dtype=dtype)
    high = make(tmp_path / "high", 1, 4, dtype=dtype, use_rslora=rslora)
    alphas = [-0.5, 0, 0.5, 1, 1.6]
    for alpha, path in zip(alphas, merge_adapters(low, high, alphas, tmp_path / "out")):
        assert path.name == f"alpha_{alpha:g}"
        for layer in range(2):
            for module in SHAPES:
                exact = alpha * update(high, layer, module) + (1 - alpha) * update(low, layer, module)
                got = update(path, layer, module)
                assert (got - exact).abs().max() <= 1e-6 * exact.abs().max()


def test_all_alphas_have_one_rank_that_vllm_allows(tmp_path):
    low, high = make(tmp_path / "low", 0, 8), make(tmp_path / "high", 1, 9)
    for path in merge_adapters(low, high, [0, 0.5, 2], tmp_path / "out"):
        config = json.loads((path / "adapter_config.json").read_text())
        assert config["r"] == config["lora_alpha"] == 32
        tensors = load_file(path / "adapter_model.safetensors")
        assert {t.shape[0] for n, t in tensors.items() if "lora_A" in n} == {32}
        assert {t.shape[1] for n, t in tensors.items() if "lora_B" in n} == {32}
    assert list(RANKS) == [1, 8, 16, 32, 64, 128, 256, 320, 512]


def test_a_module_of_one_adapter_counts_as_zero_in_the_other(tmp_path):
    low = make(tmp_path / "low", 0, 2, modules=("mlp.up_proj",))
    high = make(tmp_path / "high", 1, 2)
    (path,) = merge_adapters(low, high, [1.5], tmp_path / "out")
    exact = 1.5 * update(high, 0, "self_attn.q_proj")
    assert torch.allclose(update(path, 0, "self_attn.q_proj"), exact, rtol=1e-6)
    assert json.loads((path / "adapter_config.json").read_text())["target_modules"] == ["q_proj", "up_proj"]


def test_files_follow_the_umask_and_complete_outputs_are_kept(tmp_path):
    low, high = make(tmp_path / "low", 0, 2), make(tmp_path / "high", 1, 2)
    before = os.umask(0o022)
    try:
        (path,) = merge_adapters(low, high, [0.5], tmp_path / "out")
    finally:
        os.umask(before)
    weights = path / "adapter_model.safetensors"
    assert weights.stat().st_mode & 0o777 == 0o644
    stamp = weights.stat().st_mtime_ns
    merge_adapters(low, high, [0.5], tmp_path / "out")
    assert weights.stat().st_mtime_ns == stamp
    with pytest.raises(UserError, match="exists and holds something else"):
        merge_adapters(high, low, [0.5], tmp_path / "out")


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"use_dora": True}, "use_dora is not supported"),
        ({"bias": "all"}, "bias 'all' is not supported"),
        ({"modules_to_save": ["lm_head"]}, r"modules_to_save \['lm_head'\] is not supported"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights 'pissa' is not supported"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"r": 5}, "its config says rank 5"),
    ],
)
def test_adapters_that_are_refused(tmp_path, config, match):
    with pytest.raises(UserError, match=match):
        merge_adapters(
            make(tmp_path / "a", 0, 2), make(tmp_path / "b", 1, 2, **config), [0.5], tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_too_large_a_rank_and_other_base_are_refused(tmp_path):
    with pytest.raises(UserError, match="ranks add up to 600, vLLM allows 512"):
        merge_adapters(make(tmp_path / "a", 0, 300), make(tmp_path / "b", 1, 300), [0.5], tmp_path / "out")
    other = make(tmp_path / "c", 1, 2)
    file = other / "adapter_model.safetensors"
    name = PREFIX.format(0, "mlp.up_proj") + ".lora_A.weight"
    save_file({**load_file(file), name: torch.ones(2, 20)}, file)
    with pytest.raises(UserError, match=r"\[16\] to \[40\] in low, \[20\] to \[40\] in high"):
        merge_adapters(make(tmp_path / "d", 0, 2), other, [0.5], tmp_path / "out")


def test_peft_itself_computes_the_average(tmp_path):
    """A real model with the two adapters, trained factors at random; against its logits at every alpha."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    from tests.merge.checkpoints import make_model

    def trained(seed: int, rank: int, **options):
        torch.manual_seed(seed)
        config = peft.LoraConfig(r=rank, lora_alpha=3 * rank, init_lora_weights=False, **options)
        model = peft.get_peft_model(make_model(0, torch.float64), config)
        path = tmp_path / f"adapter{seed}"
        model.save_pretrained(path, save_embedding_layers=False)
        return path, model.merge_and_unload().state_dict()

    low, low_full = trained(1, 2, target_modules=["q_proj", "down_proj"])
    high, high_full = trained(
        2, 4, target_modules=["q_proj", "up_proj", "embed_tokens"], use_rslora=True,
        rank_pattern={"layers.1.self_attn.q_proj": 3}, alpha_pattern={"up_proj": 5},
    )  # fmt: skip
    alphas = [-0.5, 0.5, 1.6]
    for alpha, path in zip(alphas, merge_adapters(low, high, alphas, tmp_path / "out")):
        model = peft.PeftModel.from_pretrained(make_model(0, torch.float64), path).merge_and_unload()
        for name, value in model.state_dict().items():
            expected = alpha * high_full[name] + (1 - alpha) * low_full[name]
            assert (value - expected).abs().max() <= 1e-6 * expected.abs().max(), (alpha, name)
