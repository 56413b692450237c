"""Whole merges of real checkpoints."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from cef_env.merge import apply_alpha, load_state_dict, plan, run
from cef_env.merge import stream as stream_module
from cef_env.merge.tensors import blend

from .checkpoints import make_model, rounded


def reference(low: Path, high: Path, alpha: float, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    a, b = load_state_dict(low), load_state_dict(high)
    return {name: blend(a[name], b[name], alpha, dtype) for name in a}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shard", [None, "8KB"])
def test_output_is_a_complete_checkpoint(checkpoint, tmp_path, monkeypatch, dtype, tied, shard):
    monkeypatch.setattr(stream_module, "CHUNK", 100)  # many chunks for each tensor
    low = checkpoint("low", 0, dtype=dtype, tied=tied)
    high = checkpoint("high", 1, dtype=dtype, tied=tied, shard=shard)
    alphas = [1.5, -0.5, 0, 1, 0.3]
    made = plan(low, high, alphas)
    assert made.alphas == (-0.5, 0.0, 0.3, 1.0, 1.5)
    paths = run(made, tmp_path / "out")
    assert [p.name for p in paths] == ["alpha_-0.5", "alpha_0", "alpha_0.3", "alpha_1", "alpha_1.5"]
    for alpha, path in zip(made.alphas, paths):
        got = load_state_dict(path)
        expected = reference(low, high, alpha, dtype)
        assert got.keys() == expected.keys()
        assert all(torch.equal(got[k], expected[k]) for k in got)
        model = AutoModelForCausalLM.from_pretrained(path)
        assert model.dtype == dtype
        assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
        assert (path / "tokenizer.json").read_text() == '{"version": "1.0"}'
        assert {"chat_template.jinja", "generation_config.json", "README.md"} <= {
            f.name for f in path.iterdir()
        }
        record = json.loads((path / "cef_merge.json").read_text())
        assert record["alpha"] == alpha
        assert record["effective_alpha"] == pytest.approx(alpha, abs=0.01)
        assert sum(f.stat().st_size for f in path.glob("*.safetensors")) >= made.bytes_per_output
    assert made.bytes_total == 5 * made.bytes_per_output
    assert all(torch.equal(load_state_dict(paths[1])[k], v) for k, v in load_state_dict(low).items())
    assert all(torch.equal(load_state_dict(paths[3])[k], v) for k, v in load_state_dict(high).items())


@pytest.mark.parametrize("round_", ["nearest", "stochastic"])
def test_many_alphas_at_once_give_the_files_of_each_by_itself(pair, tmp_path, round_):
    alphas = [-1, -0.5, -0.25, 0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 1, 1.25, 1.5, 1.6, 2]
    paths = run(plan(*pair, alphas, round=round_), tmp_path / "all")
    for alpha, path in zip(alphas, paths):
        (alone,) = run(plan(*pair, [alpha], round=round_), tmp_path / "one")
        files = [file.name for file in path.glob("*.safetensors")]
        assert files
        assert all((path / name).read_bytes() == (alone / name).read_bytes() for name in files)


def test_out_dtype_keeps_what_bfloat16_would_round_away(pair, tmp_path):
    (path,) = run(plan(*pair, [1.37], out_dtype="float32"), tmp_path / "out")
    got = load_state_dict(path)
    expected = reference(*pair, 1.37, torch.float32)
    assert all(torch.equal(got[k], expected[k]) for k in got)
    assert AutoModelForCausalLM.from_pretrained(path).dtype == torch.float32
    assert json.loads((path / "cef_merge.json").read_text())["effective_alpha"] == pytest.approx(
        1.37, abs=1e-7
    )


def test_equal_integer_tensors_are_carried_over(pair, tmp_path):
    low, high = pair
    for path in (low,):
        tensors = load_file(path / "model.safetensors")
        save_file({**tensors, "steps": torch.arange(5)}, path / "model.safetensors", {"format": "pt"})
    first = next(high.glob("*.safetensors"))
    save_file({**load_file(first), "steps": torch.arange(5)}, first, {"format": "pt"})
    index = json.loads((high / "model.safetensors.index.json").read_text())
    index["weight_map"]["steps"] = first.name
    (high / "model.safetensors.index.json").write_text(json.dumps(index))
    (path,) = run(plan(low, high, [0.5]), tmp_path / "out")
    assert torch.equal(load_state_dict(path)["steps"], torch.arange(5))


def test_complete_outputs_are_kept_and_new_alphas_added(pair, tmp_path):
    out = tmp_path / "out"
    (first,) = run(plan(*pair, [0.5]), out)
    stamp = (first / "cef_merge.json").stat().st_mtime_ns
    seen: list[tuple[int, int]] = []
    paths = run(plan(*pair, [0.5, 2]), out, progress=lambda done, total: seen.append((done, total)))
    assert len(paths) == 2
    assert (first / "cef_merge.json").stat().st_mtime_ns == stamp
    assert seen[-1][0] == seen[-1][1] == plan(*pair, [2]).bytes_total
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    assert not list(out.glob("*.partial-*"))


def test_plan_hash_depends_on_what_is_written(pair, checkpoint):
    low, high = pair
    base = plan(low, high, [0, 1])
    assert base.hash == plan(low, high, [1, 0]).hash
    others = [
        plan(low, high, [0, 2]),
        plan(high, low, [0, 1]),
        plan(low, high, [0, 1], out_dtype="float32"),
        plan(low, checkpoint("other", 2), [0, 1]),
    ]
    assert len({base.hash, *(p.hash for p in others)}) == 5


def test_fingerprint_ignores_sharding_but_not_weights(checkpoint):
    one, many = checkpoint("one", 3), checkpoint("many", 3, shard="8KB")
    made = plan(one, many, [0.5])
    assert made.low.fingerprint == made.high.fingerprint
    assert any("same fingerprint" in line for line in made.warnings)


def test_rounding_that_swallows_alpha_is_reported(checkpoint, tmp_path):
    low = checkpoint("low", 0)
    model = make_model(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 2**-8)  # about one unit in the last place
    model.save_pretrained(tmp_path / "high")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (path,) = run(plan(low, tmp_path / "high", [1.2]), tmp_path / "out")
    record = json.loads((path / "cef_merge.json").read_text())
    assert {str(w.message) for w in caught} <= set(record["warnings"])
    assert any("effective alpha" in str(w.message) for w in caught)
    assert any("effective alpha" in line for line in record["warnings"])
    assert record["frac_equal_high"] > 0.5
    assert "Warning" in (path / "README.md").read_text()


def test_identical_checkpoints_have_no_effective_alpha(checkpoint, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (path,) = run(plan(checkpoint("a", 0), checkpoint("b", 0), [3]), tmp_path / "out")
    assert json.loads((path / "cef_merge.json").read_text())["effective_alpha"] is None


def test_files_that_belong_to_training_are_not_copied(pair, tmp_path):
    high = pair[1]
    for name in ("optimizer.pt", "training_args.bin", "trainer_state.json", ".hidden"):
        (high / name).write_text("x")
    (high / "LICENSE").write_text("licence")
    (path,) = run(plan(*pair, [0.5]), tmp_path / "out")
    names = {f.name for f in path.iterdir()}
    assert "LICENSE" in names
    assert not names & {"optimizer.pt", "training_args.bin", "trainer_state.json", ".hidden"}
    assert not any(name.endswith(".stats.json") for name in names)


@pytest.mark.parametrize("tied", [True, False])
def test_apply_alpha_in_memory_equals_the_directory(checkpoint, tmp_path, tied):
    low, high = checkpoint("low", 0, tied=tied), checkpoint("high", 1, tied=tied, shard="8KB")
    model = make_model(2, tied=tied)
    for alpha in (-0.5, 1.5):
        (path,) = run(plan(low, high, [alpha]), tmp_path / "out")
        expected = AutoModelForCausalLM.from_pretrained(path).state_dict()
        models = [make_model(seed, tied=tied).state_dict() for seed in (0, 1)]
        for sources in ((low, high), (load_state_dict(low), load_state_dict(high)), models):
            assert apply_alpha(model, *sources, alpha) is model
            assert all(torch.equal(v, expected[k]) for k, v in model.state_dict().items())
        assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied


@pytest.mark.parametrize("alpha", [-0.5, 0.3, 1.6])
def test_apply_alpha_on_float32_is_the_float64_lerp_rounded(alpha):
    """Bit for bit: what was trained and measured on such models must be what this version makes again."""
    torch.manual_seed(0)
    low, high = {"weight": torch.randn(96, 64)}, {"weight": torch.randn(96, 64)}
    model = apply_alpha(torch.nn.Linear(64, 96, bias=False), low, high, alpha)
    expected = torch.lerp(low["weight"].double(), high["weight"].double(), alpha).float()
    assert torch.equal(model.weight, expected)


def test_apply_alpha_into_a_wider_model(checkpoint):
    low, high = checkpoint("low", 0), checkpoint("high", 1)
    model = apply_alpha(make_model(2, torch.float32), low, high, 0.37)
    expected = reference(low, high, 0.37, torch.float32)
    assert all(torch.equal(v, expected[k]) for k, v in model.state_dict().items() if k in expected)


def test_importing_merge_imports_nothing_large():
    code = (
        "import sys, cef_env.merge; print([m for m in ('torch', 'safetensors', 'numba') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_files_are_merged_without_torch(pair, tmp_path):
    code = """
import sys
from cef_env.merge import plan, run
run(plan(sys.argv[1], sys.argv[2], [0.5]), sys.argv[3])
print("torch" in sys.modules)
"""
    command = [sys.executable, "-W", "ignore", "-c", code, *pair, tmp_path / "out"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_memory_stays_bounded(tmp_path):
    """The working set is a few chunks, not the checkpoint: 160 MB of weights, one tensor of 64 MB."""
    code = """
import json, resource, sys, torch
from pathlib import Path
from safetensors.torch import save_file
from cef_env.merge import plan, run
root = Path(sys.argv[1])
for name in ("low", "high"):
    (root / name).mkdir()
    (root / name / "config.json").write_text("{}")
    save_file({"w": torch.ones(32 << 20, dtype=torch.bfloat16)}, root / name / "model.safetensors")
made = plan(root / "low", root / "high", [0.5, 2.0])
run(plan(root / "low", root / "high", [0.25]), root / "warm")
before = int(open("/proc/self/statm").read().split()[1]) * 4096
peak = 0
def watch(done, total):
    global peak
    peak = max(peak, int(open("/proc/self/statm").read().split()[1]) * 4096)
run(made, root / "out", watch)
print((peak - before) >> 20)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 40


@pytest.mark.parametrize("out_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("wide", [0, 1], ids=["low", "high"])
def test_inputs_of_two_dtypes_are_averaged_exactly(checkpoint, tmp_path, out_dtype, wide):
    dtypes = [torch.bfloat16, torch.bfloat16]
    dtypes[wide] = torch.float32
    low, high = (checkpoint(name, i, dtype=dtypes[i]) for i, name in enumerate(("low", "high")))
    (path,) = run(plan(low, high, [1.37], out_dtype=out_dtype), tmp_path / "out")
    merged, a, b = map(load_state_dict, (path, low, high))
    for name, value in merged.items():
        assert value.dtype == getattr(torch, out_dtype)
        expected = rounded(torch.lerp(a[name].double(), b[name].double(), 1.37).numpy(), value.dtype)
        assert (value.double().numpy() == expected).all(), name
