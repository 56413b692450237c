"""`cef merge` as a user calls it."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cef_env.merge import load_state_dict
from tests.merge.test_lora import make

ROOT = Path(__file__).parents[2]


def cef(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cef_env.cli", "merge", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, **options)


def test_a_sweep_writes_its_directories_and_shows_what_rounding_left(pair, tmp_path):
    out = tmp_path / "out"
    done = cef(
        *pair, "--alpha", "-0.5:1.5:1", "--out", out, "--out-dtype", "float32", "--max-shard", "0.00001"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(out / f"alpha_{alpha}") for alpha in ("-0.5", "0.5", "1.5")]
    assert "effective alpha" in done.stderr
    assert "UserWarning" not in done.stderr
    record = json.loads((out / "alpha_1.5" / "cef_merge.json").read_text())
    assert record["effective_alpha"] == pytest.approx(1.5)
    assert len(list((out / "alpha_1.5").glob("model-*.safetensors"))) > 3


def test_a_dry_run_measures_and_writes_nothing(pair, tmp_path):
    done = cef(*pair, "--alpha", "0.5,1.2", "--out", tmp_path / "out", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "out").exists()
    assert done.stdout == ""
    for part in ("2 outputs of", "GB free", "plan ", "alpha_1.2", "rms of the delta"):
        assert part in done.stderr


def test_a_dry_run_refuses_what_the_merge_would_refuse(checkpoint, tmp_path):
    low, high, other = (checkpoint(name, seed) for seed, name in enumerate(("low", "high", "other")))
    assert cef(low, high, "--alpha", 0.5, "--out", tmp_path / "out").returncode == 0
    done = cef(low, other, "--alpha", 0.5, "--out", tmp_path / "out", "--dry-run")
    assert done.returncode == 2
    assert "alpha_0.5: exists and holds something else (its recipe has other fingerprints)" in done.stderr
    assert "rms of the delta" not in done.stderr  # before anything is measured


def test_alpha_may_be_given_more_than_once(pair, tmp_path):
    done = cef(*pair, "--alpha", "0.5", "--alpha", "1.2,1.5", "--out", tmp_path / "out")
    assert [Path(line).name for line in done.stdout.split()] == ["alpha_0.5", "alpha_1.2", "alpha_1.5"]


def test_checkpoints_of_one_name_are_told_apart_by_their_folders(checkpoint, tmp_path):
    for seed, name in enumerate(("low", "high")):
        (tmp_path / name).mkdir()
        checkpoint(f"{name}/model", seed)
    (tmp_path / "high/model/tokenizer.json").unlink()
    (tmp_path / "high/model/chat_template.jinja").unlink()
    done = cef(tmp_path / "low/model", tmp_path / "high/model", "--alpha", 0.5, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out/alpha_0.5/cef_merge.json").read_text())
    assert [source["name"] for source in record["sources"]] == ["low/model", "high/model"]
    card = (tmp_path / "out/alpha_0.5/README.md").read_text()
    assert "theta = 0.5 * low/model + 0.5 * high/model" in card
    assert "those of high/model, high/model has no tokenizer." in card


def test_an_adapter_beside_a_model_is_named(pair, tmp_path):
    adapter = make(tmp_path / "adapter", 0, rank=2)
    for both in ((pair[0], adapter), (adapter, pair[1])):
        done = cef(*both, "--alpha", 0.5, "--out", tmp_path / "out")
        assert done.returncode == 2
        assert f"{adapter}: is an adapter, others are models" in done.stderr


def test_more_than_two_checkpoints(checkpoint, tmp_path):
    paths = [checkpoint(name, seed) for seed, name in enumerate("abc")]
    done = cef(*paths, "--weights", "0.5,0.7,-0.2", "--out", tmp_path / "sum")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sum" / "weights_0.5_0.7_-0.2" / "README.md").is_file()
    done = cef(*paths, "--at", "1,3,5", "--coverage", "2:6:2", "--out", tmp_path / "path")
    assert done.returncode == 0, done.stderr
    assert [Path(line).name for line in done.stdout.split()] == ["coverage_2", "coverage_4", "coverage_6"]


def test_the_tokenizer_can_be_that_of_low(pair, tmp_path):
    low, high = pair
    (low / "tokenizer.json").write_text('{"version": "low"}')
    (low / "chat_template.jinja").write_text("low {{ messages }}")
    for side in ("low", "high"):
        done = cef(*pair, "--alpha", "0.5", "--out", tmp_path / f"of_{side}", "--tokenizer-from", side)
        assert done.returncode == 0, done.stderr
        assert "tokenizer.json differs between low and high" in done.stderr
        merged = tmp_path / f"of_{side}" / "alpha_0.5"
        for name in ("tokenizer.json", "chat_template.jinja"):
            assert (merged / name).read_text() == ({"low": low, "high": high}[side] / name).read_text()
        text = " ".join((merged / "README.md").read_text().split())
        assert f"tokenizer and chat template those of {side}" in text


def test_adapters(tmp_path):
    low, high = make(tmp_path / "low", 0, 2), make(tmp_path / "high", 1, 3)
    done = cef(low, high, "--alpha", "-0.5,1.5", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "alpha_-0.5" / "adapter_config.json").is_file()


def test_a_dry_run_of_adapters_shows_the_plan_and_writes_nothing(tmp_path):
    low, high = make(tmp_path / "low", 0, 2), make(tmp_path / "high", 1, 3)
    out = tmp_path / "out"
    done = cef(low, high, "--alpha", "-0.5,1.5", "--out", out, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert not out.exists()
    assert done.stdout == ""
    # Two layers of two modules, (16 + 24) and (16 + 40) wide; 2 + 3 ranks need the 8 that vLLM has.
    for part in ("4 modules", "rank 8 (inputs 2 and 3)", "2 outputs of 0.006144 MB in float32"):
        assert part in done.stderr
    assert "alpha_-0.5: to be written" in done.stderr
    cef(low, high, "--alpha", "1.5", "--out", out)
    files = sorted(out.rglob("*"))
    done = cef(low, high, "--alpha", "-0.5,1.5", "--out", out, "--dry-run")
    assert "alpha_-0.5: to be written" in done.stderr
    assert "alpha_1.5: is there already" in done.stderr
    assert sorted(out.rglob("*")) == files
    weights = out / "alpha_1.5" / "adapter_model.safetensors"
    assert 6144 < weights.stat().st_size < 6144 + 4096  # and the header


def test_a_dry_run_refuses_adapters_as_the_merge_does(tmp_path):
    low, high = make(tmp_path / "low", 0, 2), make(tmp_path / "high", 1, 2, use_dora=True)
    done = cef(low, high, "--alpha", "0.5", "--out", tmp_path / "out", "--dry-run")
    assert done.returncode == 2
    assert "use_dora is not supported" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--alpha", "nan"], "alpha 'nan' is not finite"),
        (["--alpha", "0:inf:1"], "alpha '0:inf:1' is not finite"),
        (["--alpha", "0:1:nan"], "is not finite"),
        (["--alpha", "0:1:1e-320"], "one merge writes at most 256"),
        (["--alpha", "0:1:1e-9"], "has 1e+09 values; one merge writes at most 256"),
        (["--alpha", "x"], "'x' is not a number"),
        (["--alpha", "1:0:1"], "use start:stop:step"),
        ([], "give one of --alpha, --weights, or --at"),
        (["--alpha", "1", "--weights", "0,1"], "give one of --alpha, --weights, or --at"),
        (["--at", "1,2"], "--at and --coverage go together"),
        (["--at", "2,1", "--coverage", "3"], "ascending"),
        (["--weights", "0.5,x"], "give numbers with commas"),
        (["--alpha", "0.5", "--max-shard", "nan"], "--max-shard nan"),
        (["--alpha", "0.5", "--round", "up"], "round 'up' is unknown"),
        (["--alpha", "0.5", "--tokenizer-from", "both"], "tokenizer_from 'both' is unknown"),
    ],
)
def test_bad_requests_are_one_line(pair, tmp_path, arguments, message):
    # Limited memory, so that a list of a billion alphas could not go unnoticed.
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # noqa: E731
    done = cef(*pair, *arguments, "--out", tmp_path / "out", preexec_fn=limit)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_files_follow_the_umask(pair, tmp_path):
    done = cef(*pair, "--alpha", "0.5", "--out", tmp_path / "out", preexec_fn=lambda: os.umask(0o022))
    assert done.returncode == 0, done.stderr
    assert {f.stat().st_mode & 0o777 for f in (tmp_path / "out" / "alpha_0.5").iterdir()} == {0o644}


def test_the_weights_are_those_of_the_library(pair, tmp_path):
    from cef_env.merge import plan, run

    cef(*pair, "--alpha", "1.2", "--out", tmp_path / "command")
    run(plan(*pair, [1.2]), tmp_path / "library")
    one, two = (load_state_dict(tmp_path / side / "alpha_1.2") for side in ("command", "library"))
    assert all(torch.equal(one[name], two[name]) for name in one)
