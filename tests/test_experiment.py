"""`cef reproduce` as a whole: stages, kills, refusals. The model is hardly trained; all else is real."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cef_env.errors import UserError
from cef_env.experiment.stages import claim_directory, reproduce, stages
from cef_env.training import load_config
from cef_env.ui import Reporter

CONFIG = """
preset: tiny
max_new_tokens: 24
model: {hidden_size: 32, intermediate_size: 64, layers: 1, heads: 2, kv_heads: 2}
tokenizer: {problems: 100}
sft: {steps: 30, batch_size: 16, warmup_steps: 2, save_every: 5}
rl: {steps: 3, problems_per_step: 2, group_size: 3, save_every: 1}
sweep: {alphas: [-1, 0, 0.5, 1, 2], problems: {hard: 4, easy: 4}, samples: 2, chunk_problems: 2}
"""


@pytest.fixture(scope="module")
def config_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "tiny.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, config_file: Path) -> Path:
    """An undisturbed run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    reproduce(load_config(str(config_file)), out, Reporter())
    return out


def start(config_file: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "cef_env.cli",
        "reproduce",
        "--preset",
        str(config_file),
        "--out",
        str(out),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_every_stage_leaves_a_manifest_and_the_report_is_whole(whole: Path, config_file: Path) -> None:
    for name in stages(load_config(str(config_file))):
        manifest = json.loads((whole / name / "manifest.json").read_text())
        assert manifest["stage"] == name
        assert {"versions", "seed", "sandbox_tier", "wall_s", "cpu_s"} <= manifest.keys()
    page = (whole / "report" / "report.html").read_text()
    assert 'src="http' not in page
    summary = json.loads((whole / "report" / "summary.json").read_text())
    assert set(summary["splits"]) == {"easy", "hard"}
    assert summary["meta"]["preset"] == "tiny"


def test_killed_again_and_again_it_ends_with_the_same_summary(
    whole: Path, config_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    # Wait for a sign of each stage's middle, kill, and go on; the last start runs to the end.
    for sign in ("sft/state.pt", "rl_low/state.pt", "rl_high/state.pt", "sweep/samples.jsonl"):
        process = start(config_file, out)
        deadline = time.monotonic() + 120
        while not (out / sign).exists() or not (out / sign).stat().st_size:
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    process = start(config_file, out)
    errors = process.communicate(timeout=300)[1].decode()
    assert process.returncode == 0, errors
    # The page itself also shows what was measured: times and memory.
    same = ("report/summary.json", "report/figures/hard-frontier.svg", "rl_low/model/model.safetensors")
    for file in same:
        assert (out / file).read_bytes() == (whole / file).read_bytes(), file


def test_a_finished_run_is_not_done_again(whole: Path, config_file: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*.safetensors")}
    assert before
    reproduce(load_config(str(config_file)), whole, Reporter())
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*.safetensors")} == before


def test_another_seed_gives_other_weights(whole: Path, config_file: Path, tmp_path: Path) -> None:
    from cef_env.training.sft import train_sft

    model = train_sft(load_config(str(config_file), seed=1), tmp_path, lambda done, total, note: None)
    assert (model / "model.safetensors").read_bytes() != (whole / "sft/model/model.safetensors").read_bytes()


def test_a_directory_of_another_config_is_refused_with_the_key(whole: Path, config_file: Path) -> None:
    with pytest.raises(UserError, match=r"another config \(key seed\)"):
        claim_directory(load_config(str(config_file), seed=5), whole)


def test_a_directory_with_other_things_in_it_is_refused(tmp_path: Path, config_file: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="is not empty"):
        claim_directory(load_config(str(config_file)), tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_two_processes_do_not_share_a_run_directory(tmp_path: Path, config_file: Path) -> None:
    out = tmp_path / "run"
    first = start(config_file, out)
    while not (out / "lock").exists():
        assert first.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    second = start(config_file, out)
    errors = second.communicate(timeout=60)[1].decode()
    first.kill()
    first.communicate()
    assert second.returncode == 2
    assert "in use by another process" in errors
    assert len(errors.strip().splitlines()) == 1


def test_a_damaged_checkpoint_is_named(tmp_path: Path, whole: Path, config_file: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    shutil.rmtree(out / "rl_low")
    (out / "sft" / "model" / "model.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(UserError, match="does not load"):
        reproduce(load_config(str(config_file)), out, Reporter())


@pytest.mark.parametrize(
    ("file", "gone", "named"),
    [
        ("config.json", [], "not JSON"),
        ("sft/manifest.json", ["report"], "not JSON"),
        ("judge.sqlite", ["report"], "delete the file"),
        ("sft/state.pt", ["sft/model", "sft/manifest.json"], "delete it"),
        ("sft/tokenizer/tokenizer.json", ["sft/model", "sft/manifest.json"], "delete it"),
        ("rl_low/state.pt", ["rl_low/model", "rl_low/manifest.json"], "delete it"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(
    tmp_path: Path, whole: Path, config_file: Path, file: str, gone: list[str], named: str
) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    for name in gone:
        path = out / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (out / file).write_text("garbage{")
    with pytest.raises(UserError, match=named) as error:
        reproduce(load_config(str(config_file)), out, Reporter())
    assert file.rpartition("/")[0] in str(error.value)
    assert "\n" not in str(error.value)


def test_a_torn_end_of_the_samples_is_drawn_again(tmp_path: Path, whole: Path, config_file: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    for name in ("report", "sweep/manifest.json"):
        shutil.rmtree(out / name) if (out / name).is_dir() else (out / name).unlink()
    data = (out / "sweep/samples.jsonl").read_bytes()
    (out / "sweep/samples.jsonl").write_bytes(data[: int(len(data) * 0.6)])
    reproduce(load_config(str(config_file)), out, Reporter())
    assert (out / "report/summary.json").read_bytes() == (whole / "report/summary.json").read_bytes()


def test_a_missing_sandbox_leaves_nothing_half_done(
    tmp_path: Path, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEF_SANDBOX", "nowhere")
    with pytest.raises(UserError, match="nowhere"):
        reproduce(load_config(str(config_file)), tmp_path / "run", Reporter())
    assert not (tmp_path / "run").exists()


def test_a_run_from_before_a_key_existed_goes_on_with_its_default(tmp_path: Path, config_file: Path) -> None:
    config = load_config(str(config_file))
    claim_directory(config, tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    kept = json.loads(path.read_text())
    del kept["precision"], kept["rl"]["advantage"]
    path.write_text(json.dumps(kept))
    claim_directory(config, tmp_path / "run")
    kept["rl"]["steps"] += 1
    path.write_text(json.dumps(kept))
    with pytest.raises(UserError, match=r"rl\.steps"):
        claim_directory(config, tmp_path / "run")
