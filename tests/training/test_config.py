"""Configurations: presets load, and mistakes are named."""

from pathlib import Path

import pytest

from cef_env.errors import UserError
from cef_env.training import load_config, presets


def test_every_preset_loads_and_asks_for_the_paper_alphas() -> None:
    assert {"gpu", "laptop", "repair", "shaping_continuous", "shaping_discrete", "smoke"} == set(presets())
    for name in presets():
        config = load_config(name)
        assert config.preset == name
        assert {-1, -0.5, 0, 0.25, 0.5, 0.75, 1, 1.5, 2} <= set(config.sweep.alphas)


def test_a_run_keeps_the_levels_of_a_shaped_reward_that_its_coverage_knows() -> None:
    reward = load_config("shaping_discrete").rl.reward
    assert reward.within(None) == ([2, 4, None], [1, 1, 1])
    assert reward.within(4) == ([2, 4], [1, 1])
    assert reward.within(2) == ([2], [1])


def test_a_variant_differs_in_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("preset: x\nrl: {steps: 5}\nvariants: {fix: {coverage: 4, rl: {repair_share: 0.5}}}\n")
    runs = load_config(str(path)).runs()
    assert list(runs) == ["low", "high", "fix"]
    coverage, rl = runs["fix"]
    assert coverage == 4
    assert (rl.steps, rl.repair_share, runs["high"][1].repair_share) == (5, 0.5, 0)


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
        ("preset: x\nrl: {advantage: gae}\n", "rl.advantage"),
        ("preset: x\nrl: {clip_low: 1}\n", "rl.clip_low"),
        ("preset: x\nrl: {minibatches: 97}\n", "rl.minibatches"),
        ("preset: x\nrl: {repair_share: 1}\n", "rl.repair_share"),
        ("preset: x\nrl: {repair_share: 0.01}\n", "rl.repair_share"),
        ("preset: x\nrl: {lora: {rank: 0}}\n", "rl.lora.rank"),
        ("preset: x\nrl: {lora: {dropout: 0.1}}\n", "rl.lora.dropout"),
        ("preset: x\nrl: {reward: shaped}\n", "rl.reward.kind"),
        ("preset: x\nrl: {reward: discrete}\n", "rl.reward"),
        ("preset: x\nrl: {reward: {kind: discrete, levels: [3, 2]}}\n", "rl.reward.levels"),
        ("preset: x\nrl: {reward: {kind: discrete, levels: [2, inf], weights: [1]}}\n", "rl.reward"),
        ("preset: x\nrl: {reward: {kind: discrete, levels: [2], weights: [-1]}}\n", "rl.reward.weights"),
        ("preset: x\nrl: {reward: {kind: discrete, levels: [3, inf]}}\n", "rl.reward.levels"),
        ("preset: x\nrl: {reward: {kind: continuous, levels: [2, inf]}}\n", "rl.reward"),
        ("preset: x\nrl: {reward: {kind: coverage, levels: [2]}}\n", "rl.reward"),
        ("preset: x\nsft: {repair_share: 1}\n", "sft.repair_share"),
        ("preset: x\nprecision: half\n", "precision"),
        ("preset: x\nsweep: {samples: 0}\n", "sweep.samples"),
        ("preset: x\nsweep: {problems: {}}\n", "sweep.problems"),
        ("preset: x\nsweep: {problems: {medium: 3}}\n", "sweep.problems"),
        ("preset: x\nsweep: {alphas: [0, 1, .nan]}\n", "sweep.alphas"),
        ("preset: x\nsweep: {controls: [noise]}\n", "sweep.controls"),
        ("preset: x\nvariants: {more: {rl: {steps: 3}}}\n", "variants.more.coverage"),
        ("preset: x\nvariants: {more: {coverage: 4, rl: {stepz: 3}}}\n", "variants.more.rl.stepz"),
        ("preset: x\nvariants: {low: {coverage: 4}}\n", "variants"),
        ("preset: x\nvariants: {A/B: {coverage: 4}}\n", "variants"),
        ("preset: x\nsetting: tool_use\nvariants: {f: {coverage: 4, rl: {repair_share: 0.5}}}\n", "repair"),
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
