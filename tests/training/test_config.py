"""Configurations: presets load, and mistakes are named."""

from pathlib import Path

import pytest

from cef_env.errors import UserError
from cef_env.training import load_config, presets


def test_every_preset_loads_and_asks_for_the_paper_alphas() -> None:
    assert {"laptop", "smoke"} <= set(presets())
    for name in presets():
        config = load_config(name)
        assert config.preset == name
        assert {-1, -0.5, 0, 0.25, 0.5, 0.75, 1, 1.5, 2} <= set(config.sweep.alphas)


def test_the_seed_can_be_replaced() -> None:
    assert load_config("smoke", seed=7).seed == 7


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("preset: x\nrl: {stepz: 3}\n", "rl.stepz"),
        ("preset: x\ncoverages: {low: zero, high: inf}\n", "coverages.low"),
        ("preset: x\ncoverages: {low: 3, high: 2}\n", "coverages"),
        ("preset: x\ncoverages: {low: 3}\n", "coverages"),
        ("preset: x\nsweep: {alphas: [0, 0.5]}\n", "sweep.alphas"),
        ("preset: x\nsft: {mixture: {brute_force: 0.9}}\n", "sft.mixture"),
        ("preset: x\nrl: {steps: 0}\n", "rl.steps"),
        ("preset: x\nrl: {group_size: 1}\n", "rl.group_size"),
        ("preset: x\nrl: {learning_rate: -1}\n", "rl.learning_rate"),
        ("preset: x\nrl: {temperature: .inf}\n", "rl.temperature"),
        ("preset: x\nsweep: {samples: 0}\n", "sweep.samples"),
        ("preset: x\nsweep: {problems: {}}\n", "sweep.problems"),
        ("preset: x\nsweep: {problems: {medium: 3}}\n", "sweep.problems"),
        ("preset: x\nsweep: {alphas: [0, 1, .nan]}\n", "sweep.alphas"),
        ("preset: x\nmodel: {hidden_size: 30, heads: 4}\n", "model"),
        ("preset: x\nmax_new_tokens: 0\n", "max_new_tokens"),
        ("preset: x\nseed: -1\n", "seed"),
        ("- a\n", "keys and values"),
        ("preset: [\n", "not YAML"),
    ],
)
def test_a_wrong_key_or_value_is_named_in_one_line(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        load_config(str(path))
    assert named in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["huge", "nowhere.yaml"])
def test_an_unknown_preset_or_file_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=name):
        load_config(name)
