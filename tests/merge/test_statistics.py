"""What rounding leaves of an alpha, measured before anything is written."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from cef_env.merge import load_state_dict, plan, run, stats
from cef_env.merge import statistics as statistics_module


def near(low, tmp_path, name="near", relative=2**-8):
    """A copy of checkpoint `low` about one unit in the last place away."""
    import shutil

    shutil.copytree(low, tmp_path / name)
    file = tmp_path / name / "model.safetensors"
    save_file({k: (v * (1 + relative)).to(v.dtype) for k, v in load_file(file).items()}, file)
    return tmp_path / name


def test_nothing_is_written(pair, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    stats(plan(*pair, [0.5]))
    assert sorted(tmp_path.rglob("*")) == before


def test_they_are_those_of_the_files(pair, tmp_path):
    made = plan(*pair, [-0.5, 1.2])
    report = stats(made, exact=True)
    low, high = (torch.cat([v.flatten() for _, v in sorted(load_state_dict(p).items())]) for p in pair)
    delta = high.double() - low.double()
    assert report.delta["rms"] == pytest.approx(float(delta.square().mean().sqrt()))
    assert set(report.delta["by_layer"]) == {"0", "1"}
    assert set(report.delta["by_tensor"]) == set(load_state_dict(pair[0]))
    assert sum(report.delta["frac_by_ulps"].values()) == pytest.approx(1)
    assert report.delta["frac_by_ulps"]["0"] == pytest.approx(float((low == high).double().mean()))
    for path in run(made, tmp_path / "out"):
        merged = torch.cat([v.flatten() for _, v in sorted(load_state_dict(path).items())])
        got = report.outputs[path.name]
        effective = float((merged.double() - low.double()) @ delta / (delta @ delta))
        assert got["effective_alpha"] == pytest.approx(effective, rel=1e-9)
        assert got["frac_equal_high"] == pytest.approx(float((merged == high).double().mean()))
        assert got["frac_unchanged"] == pytest.approx(float((low == high).double().mean()))


def test_a_sample_is_near_the_whole_and_says_so(checkpoint, monkeypatch):
    monkeypatch.setattr(statistics_module, "BLOCK", 64)
    monkeypatch.setattr(statistics_module, "STRIDE", 4)
    made = plan(checkpoint("low", 0), checkpoint("high", 1), [1.2])
    sample, whole = stats(made), stats(made, exact=True)
    assert sample.sampled["elements"] < 0.6 * sample.sampled["of"]
    assert "every 4th block of 64 elements" in sample.sampled["rule"]
    assert whole.sampled == {"exact": True, "elements": whole.sampled["of"], "of": whole.sampled["of"],
                             "rule": "all elements"}  # fmt: skip
    assert sample.delta["rms"] == pytest.approx(whole.delta["rms"], rel=0.2)
    assert sample.outputs["alpha_1.2"]["effective_alpha"] == pytest.approx(1.2, abs=0.01)


def test_one_unit_apart_alphas_collapse_and_are_named(checkpoint, tmp_path):
    low = checkpoint("low", 0)
    report = stats(plan(low, near(low, tmp_path), [1.1, 1.2, 1.4, 3.0]))
    assert any(line.startswith("alpha_1.2 is nearly the same model as alpha_1.1") for line in report.warnings)
    assert any("alpha_1.4: rounding makes its effective alpha" in line for line in report.warnings)
    assert not any(line.startswith("alpha_3 is nearly") for line in report.warnings)
    ulps = report.delta["frac_by_ulps"]
    assert ulps["1"] + ulps["2-3"] > 0.9


@pytest.mark.parametrize("options", [{"out_dtype": "float32"}, {"round": "stochastic", "seed": 1}])
def test_float32_and_stochastic_rounding_restore_alpha(checkpoint, tmp_path, options):
    low = checkpoint("low", 0)
    high = near(low, tmp_path)
    lost = stats(plan(low, high, [1.3]), exact=True).outputs["alpha_1.3"]["effective_alpha"]
    kept = stats(plan(low, high, [1.3], **options), exact=True).outputs["alpha_1.3"]["effective_alpha"]
    assert abs(lost - 1.3) > 0.05
    assert kept == pytest.approx(1.3, abs=0.02)


def test_stochastic_merges_do_not_depend_on_shards_and_follow_the_seed(pair, tmp_path):
    options = {"round": "stochastic", "seed": 7}
    (a,) = run(plan(*pair, [1.3], **options), tmp_path / "a")
    (b,) = run(plan(*pair, [1.3], max_shard=1 << 12, **options), tmp_path / "b")
    (c,) = run(plan(*pair, [1.3], round="stochastic", seed=8), tmp_path / "c")
    first, second, third = map(load_state_dict, (a, b, c))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], third[name]) for name in first)
    assert json.loads((a / "cef_merge.json").read_text())["recipe"]["seed"] == 7
    assert "stochastic, seed 7" in (a / "README.md").read_text()
