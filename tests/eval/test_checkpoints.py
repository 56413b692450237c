"""`cef eval` between two real checkpoints, with its controls; the model is hardly trained."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cef_env.cli import app
from cef_env.errors import UserError
from cef_env.eval import read_tables

CONFIG = """
preset: tiny
max_new_tokens: 24
model: {hidden_size: 32, intermediate_size: 64, layers: 1, heads: 2, kv_heads: 2}
tokenizer: {problems: 100}
sft: {steps: 2, batch_size: 8, warmup_steps: 1, save_every: 2}
"""


def quiet(done: int, total: int, note: str) -> None:
    """Progress that nobody sees."""


@pytest.fixture(scope="module")
def endpoints(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny warm start, and the same with its weights disturbed."""
    import torch
    from safetensors.torch import load_file, save_file

    from cef_env.training import load_config
    from cef_env.training.sft import train_sft

    root = tmp_path_factory.mktemp("checkpoints")
    (root / "tiny.yaml").write_text(CONFIG)
    low = train_sft(load_config(str(root / "tiny.yaml")), root / "sft", quiet)
    high = root / "high"
    shutil.copytree(low, high)
    weights = load_file(high / "model.safetensors")
    torch.manual_seed(0)
    for tensor in weights.values():
        tensor += 0.02 * torch.randn(tensor.shape)
    save_file(weights, high / "model.safetensors", {"format": "pt"})
    return low, high


def cef(*arguments: str) -> Result:
    """The command in this process, which has imported torch already."""
    return CliRunner().invoke(app, arguments)


def test_a_sweep_with_controls_ends_in_a_report(endpoints, tmp_path):
    out = tmp_path / "sweep"
    command = [
        *("eval", "--problems", "hard=builtin:hard?count=2", "--samples", "2", "--alphas", "0,1,1.5"),
        *("--low", str(endpoints[0]), "--high", str(endpoints[1]), "--max-new-tokens", "12"),
        *("--control", "random-direction", "--control", "temperature=1.3", "--out", str(out)),
    ]
    done = cef(*command)
    assert done.exit_code == 0, done.output
    (counts,) = read_tables(out).values()
    assert [m.name for m in counts.members] == [
        "alpha 0", "alpha 1", "alpha 1.5", "random 1.5", "temperature 1.3",
    ]  # fmt: skip
    plan = json.loads((out / "plan.json").read_text())
    assert str(endpoints[0]) not in json.dumps(plan)  # shards of other machines have other paths
    assert plan["config"]["endpoints"]["low"] != plan["config"]["endpoints"]["high"]
    assert cef(*command).exit_code == 0  # nothing is left to do
    done = cef("report", str(out))
    assert done.exit_code == 0, done.output
    summary = json.loads((out / "report" / "summary.json").read_text())["splits"]["hard"]
    assert [c["label"] for c in summary["controls"]] == ["random 1.5", "temperature 1.3"]
    assert (out / "report" / "report.html").exists()
    refused = cef(*command[:-2], "--out", str(out), "--seed", "1")
    assert isinstance(refused.exception, UserError)
    assert "config.seed" in str(refused.exception)


def test_one_checkpoint_alone_has_rates_and_a_report(endpoints, tmp_path):
    out = tmp_path / "alone"
    agent = f"hf:{endpoints[0]}"
    options = ["--samples", "2", "--max-new-tokens", "12", "--out", str(out)]
    done = cef("eval", "--problems", "builtin:easy?count=2", "--agent", agent, *options)
    assert done.exit_code == 0, done.output
    assert cef("report", str(out)).exit_code == 0
    summary = json.loads((out / "report" / "summary.json").read_text())["splits"]["builtin:easy?count=2"]
    assert summary["alphas"] == []
    assert summary["controls"][0]["label"] == agent
    assert "not both sampled" in summary["missing"]["ensembles"]
    done = cef("eval", "export", str(out), "--csv", str(tmp_path / "counts.csv"))
    assert done.exit_code == 0, done.output
    assert len((tmp_path / "counts.csv").read_text().splitlines()) == 3
    assert cef("eval", "show", str(out)).exit_code == 0
    assert cef("eval", "compact", str(out)).exit_code == 0
    assert cef("eval", "rules", str(out)).exit_code == 0
