"""Everything that must be refused, with one line that says what to do."""

import json
import math
import re
import shutil
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cef_env.errors import UserError
from cef_env.merge import apply_alpha, load_state_dict, plan, plan_path, run
from tests.merge.checkpoints import make_model


def edit(path: Path, file: str = "model.safetensors", **tensors: torch.Tensor) -> None:
    save_file(
        {**load_file(path / file), **{k.replace("__", "."): v for k, v in tensors.items()}}, path / file
    )


def refuse(match: str, low: Path, high: Path, alphas=(0.5,), **options: str) -> None:
    with pytest.raises(UserError, match=match) as error:
        plan(low, high, alphas, **options)
    assert "\n" not in str(error.value)


def refuse_run(match: str, low: Path, high: Path, out: Path, alphas=(0.5,)) -> None:
    made = plan(low, high, alphas)
    with pytest.raises(UserError, match=match) as error:
        run(made, out)
    assert "\n" not in str(error.value)
    assert not list(out.glob("*.partial-*")) if out.is_dir() else True


@pytest.fixture
def two(checkpoint):
    return checkpoint("low", 0), checkpoint("high", 1)


@pytest.mark.parametrize(
    ("alphas", "match"),
    [
        ((), "no alpha"),
        ((0.5, math.nan), "alpha nan is not finite"),
        ((math.inf,), "alpha inf is not finite"),
        ((0.5, 0.5), "both be written to alpha_0.5"),
        ((0.1234567, 0.12345671), "both be written to alpha_0.123457"),
        ((0.0, -0.0), "both be written to alpha_0"),
    ],
)
def test_alphas(two, alphas, match):
    refuse(match, *two, alphas=alphas)


def test_unknown_out_dtype(two):
    refuse("out_dtype 'int8' is unknown", *two, out_dtype="int8")


def test_no_such_directory(two, tmp_path):
    refuse("no such directory", two[0], tmp_path / "nowhere")


def test_adapter(two):
    (two[1] / "adapter_config.json").write_text("{}")
    refuse("is an adapter", *two)


@pytest.mark.parametrize(
    ("files", "match"),
    [
        (["global_step10/"], "optimizer shards"),
        (["pytorch_model.bin"], "pickled weights"),
        ([], "neither model.safetensors nor"),
    ],
)
def test_other_kinds_of_directories(two, tmp_path, files, match):
    other = tmp_path / "other"
    other.mkdir()
    for name in files:
        (other / name).mkdir() if name.endswith("/") else (other / name).write_text("x")
    refuse(match, two[0], other)


def test_no_config(two):
    (two[1] / "config.json").unlink()
    refuse("no config.json", *two)


def test_config_is_not_json(two):
    (two[1] / "config.json").write_text("{")
    refuse("cannot be read as JSON", *two)


def test_quantised(two):
    config = json.loads((two[1] / "config.json").read_text())
    (two[1] / "config.json").write_text(json.dumps({**config, "quantization_config": {}}))
    refuse("is quantised", *two)


def test_names_differ(two):
    edit(two[0], extra__weight=torch.ones(2))
    refuse(r"only in low \['extra.weight'\] \(1 in all\), only in high \[\]", *two)


def test_tied_head_in_one_of_them(two):
    edit(two[0], lm_head__weight=torch.ones(61, 32, dtype=torch.bfloat16))
    refuse("stores a tied lm_head", *two)


def test_shapes_differ(checkpoint):
    low, high = checkpoint("low", 0), checkpoint("high", 1, vocab_size=64)
    refuse(r"embed_tokens.weight: shape \[61, 32\] in low, \[64, 32\] in high", low, high)


def test_dtypes_differ(checkpoint):
    low, high = checkpoint("low", 0), checkpoint("high", 1, dtype=torch.float32)
    refuse("dtype BF16 in low, F32 in high", low, high)


def test_architecture_differs(two):
    config = json.loads((two[1] / "config.json").read_text())
    (two[1] / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 0.5}))
    refuse("rms_norm_eps is 1e-06 in low and 0.5 in high", *two)


def configure(path: Path, **entries: object) -> None:
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **entries}))


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("rope_theta", 1e4, 1e6),
        ("rope_scaling", {"rope_type": "yarn", "factor": 2.0}, {"rope_type": "yarn", "factor": 4.0}),
        ("rope_scaling", None, {"rope_type": "linear", "factor": 2.0}),
        ("rope_parameters", {"rope_theta": 1e4, "rope_type": "default"},
         {"rope_theta": 1e6, "rope_type": "default"}),
        ("architectures", ["Qwen2ForCausalLM"], ["LlamaForCausalLM"]),
        ("tie_word_embeddings", True, False),
    ],
)  # fmt: skip
def test_configs_that_give_the_same_weights_another_meaning(two, key, low, high):
    for path, value in zip(two, (low, high)):
        configure(path, **{key: value})
    refuse(re.escape(f"config.json: {key} is {json.dumps(low)} in low and {json.dumps(high)} in high"), *two)


def test_a_tie_that_only_one_config_names(two):
    """Not said is not the same as said: transformers ties by default what another version leaves open."""
    config = json.loads((two[1] / "config.json").read_text())
    assert config.pop("tie_word_embeddings") is True
    (two[1] / "config.json").write_text(json.dumps(config))
    refuse("tie_word_embeddings is true in low and null in high", *two)


def test_float_dtypes_that_differ_need_the_dtype_to_write(checkpoint):
    low, high = checkpoint("low", 0), checkpoint("high", 1, dtype=torch.float16)
    refuse("dtype BF16 in low, F16 in high; .*name the dtype to write", low, high)
    for out_dtype in ("float32", "bfloat16"):
        assert plan(low, high, [0.5], out_dtype=out_dtype).out_dtype is not None


def test_an_integer_and_a_float_are_refused_whatever_is_written(two):
    edit(two[0], step=torch.ones(3, dtype=torch.int64))
    edit(two[1], step=torch.ones(3))
    refuse("step: dtype I64 in low, F32 in high", *two, out_dtype="float32")


def test_dtype_that_cannot_be_merged(two):
    for path in two:
        edit(path, q=torch.ones(4, dtype=torch.int8))
    refuse("tensor q has dtype I8, which cannot be merged", *two)


def test_no_float_tensor(tmp_path):
    for name in ("low", "high"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        save_file({"a": torch.arange(3)}, tmp_path / name / "model.safetensors")
    refuse("holds no float tensor", tmp_path / "low", tmp_path / "high")


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated(two, keep):
    file = two[1] / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:keep])
    refuse("truncated", *two)


def test_damaged_header(two):
    file = two[1] / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[8:12] = b"????"
    file.write_bytes(data)
    refuse("header is damaged", *two)


def test_header_with_a_wrong_size(two):
    file = two[1] / "model.safetensors"
    header = json.dumps({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    refuse(r"tensor a F32\[3\] has 8 bytes", *two)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: {**m, "ghost": next(iter(m.values()))}, "tensor ghost is in no shard"),
        (lambda m: dict(list(m.items())[1:]), "does not list"),
        (lambda m: {**m, "ghost": "model-00099-of-00099.safetensors"}, "shard model-00099.* is missing"),
        (lambda m: {**m, "ghost": "../x.safetensors"}, "leaves the directory"),
        (lambda m: dict(zip(m, reversed(m.values()))), "it is in"),
        (lambda m: {}, "has no weight_map"),
    ],
)
def test_index(pair, change, match):
    path = pair[1] / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    path.write_text(json.dumps({**index, "weight_map": change(index["weight_map"])}))
    refuse(match, *pair)


def test_missing_shard(pair):
    next(pair[1].glob("model-00002-*")).unlink()
    refuse("shard model-00002-.* is missing", *pair)


@pytest.mark.parametrize("side", [0, 1], ids=["low", "high"])
@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf])
def test_nan_or_infinity_in_an_input(two, tmp_path, bad, side):
    weights = load_file(two[side] / "model.safetensors")["model.norm.weight"]
    weights[3] = bad
    edit(two[side], model__norm__weight=weights)
    refuse_run(f"{two[side].name}: model.norm.weight holds NaN or infinity", *two, tmp_path / "out")
    assert not (tmp_path / "out" / "alpha_0.5").exists()


def test_overflow_of_the_output(checkpoint, tmp_path):
    low, high = checkpoint("low", 0, dtype=torch.float16), checkpoint("high", 1, dtype=torch.float16)
    edit(low, model__norm__weight=torch.full((32,), -30000, dtype=torch.float16))
    edit(high, model__norm__weight=torch.full((32,), 30000, dtype=torch.float16))
    refuse_run(
        "model.norm.weight in alpha_3 holds NaN or infinity; use out_dtype float32",
        low,
        high,
        tmp_path / "out",
        alphas=[3],
    )
    (path,) = run(plan(low, high, [3], out_dtype="float32"), tmp_path / "out")
    assert load_state_dict(path)["model.norm.weight"][0] == 150000


def test_integer_tensors_that_differ(two, tmp_path):
    for i, path in enumerate(two):
        edit(path, steps=torch.tensor([i]))
    refuse_run("steps: I64 tensor differs", *two, tmp_path / "out")


def test_tied_tensors_that_disagree(two, tmp_path):
    for path in two:
        edit(path, lm_head__weight=torch.ones(61, 32, dtype=torch.bfloat16))
    refuse_run("config ties .* but they differ", *two, tmp_path / "out")


def test_output_is_an_input(two, tmp_path):
    refuse_run("is an input of the merge", *two, two[0])
    shutil.copytree(two[0], tmp_path / "out" / "alpha_0.5")
    refuse_run("is an input of the merge", tmp_path / "out" / "alpha_0.5", two[1], tmp_path / "out")


def test_output_is_a_file(two, tmp_path):
    (tmp_path / "out").write_text("x")
    refuse_run("is a file", *two, tmp_path / "out")


def test_output_holds_something_else(two, checkpoint, tmp_path):
    (tmp_path / "out" / "alpha_0.5").mkdir(parents=True)
    refuse_run("exists and holds something else", *two, tmp_path / "out")
    run(plan(*two, [2]), tmp_path / "out")
    refuse_run("exists and holds something else", two[0], checkpoint("new", 5), tmp_path / "out", alphas=[2])


def test_disk_too_small(two, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 5, 5))
    refuse_run("outputs need .* GB, the disk has 0.00 GB", *two, tmp_path / "out")


def test_input_changed_after_the_plan(two, tmp_path):
    made = plan(*two, [0.5])
    edit(two[1], model__norm__weight=torch.zeros(32, dtype=torch.bfloat16))
    with pytest.raises(UserError, match="changed since the plan was made"):
        run(made, tmp_path / "out")


def test_two_merges_in_one_directory(two, tmp_path):
    import fcntl

    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".merge.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refuse_run("is in use by another process", *two, tmp_path / "out")


def test_tokenizers_that_differ_are_a_warning(two):
    assert plan(*two, [0.5]).warnings == ()
    (two[0] / "tokenizer.json").write_text('{"version": "2.0"}')
    (two[0] / "chat_template.jinja").unlink()
    warnings = plan(*two, [0.5]).warnings
    assert warnings[0].startswith("tokenizer.json differs")
    assert warnings[1].startswith("chat_template.jinja is only in high")


def test_in_memory_refusals(two):
    model = make_model(2)
    low, high = load_state_dict(two[0]), load_state_dict(two[1])
    before = {k: v.clone() for k, v in model.state_dict().items()}
    norm = "model.norm.weight"
    without = [{k: v for k, v in source.items() if k != norm} for source in (low, high)]
    resized = [{**source, norm: torch.ones(3)} for source in (low, high)]
    untied = [{**source, "lm_head.weight": -source["model.embed_tokens.weight"]} for source in (low, high)]
    cases = [
        ("not finite", low, high, math.nan),
        ("only in low", {**low, "extra": torch.ones(1)}, high, 0.5),
        ("in low, .* in high", {**low, norm: torch.ones(3)}, high, 0.5),
        ("in low, .* in high", {**low, norm: low[norm].float()}, high, 0.5),
        ("but not in the model", {**low, "x": torch.ones(1)}, {**high, "x": torch.ones(1)}, 0.5),
        ("in the model but not in low", *without, 0.5),
        ("shape .* in the model", *resized, 0.5),
        ("is the model's own memory", model.state_dict(), make_model(1).state_dict(), 0.5),
        ("tied tensors .* differ", *untied, 0.5),
    ]
    for match, left, right, alpha in cases:
        with pytest.raises(UserError, match=match):
            apply_alpha(model, left, right, alpha)
        assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_in_memory_overflow(two):
    low, high = load_state_dict(two[0]), load_state_dict(two[1])
    high["model.norm.weight"] = torch.full_like(high["model.norm.weight"], torch.finfo(torch.bfloat16).max)
    with pytest.raises(UserError, match=r"model.norm.weight at alpha 3 holds NaN or infinity"):
        apply_alpha(make_model(2), low, high, 3)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_json_that_is_nested_too_deeply(two, file):
    text = b"[" * 100_000
    header = struct.pack("<Q", len(text)) if file == "model.safetensors" else b""
    (two[0] / file).write_bytes(header + text)
    refuse(f"{file}: .*(cannot be read as JSON|header is damaged)", *two)


def test_coverages_too_close_to_extrapolate_from(two):
    with pytest.raises(UserError, match="two are too close to reach coverage_1"):
        plan_path({0.0: two[0], 1e-320: two[1]}, [1.0])
