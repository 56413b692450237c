"""Alpha set inside the workers of a real vLLM engine (the CPU build will do). Skipped where there is none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

SCRIPT = """
import json, os, sys
os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", VLLM_LOGGING_LEVEL="ERROR",
                  HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
from pathlib import Path
import torch
from safetensors.torch import save_file
from cef_env import merge
from cef_env.errors import UserError
from cef_env.merge.vllm_worker import EXTENSION, set_alpha
from vllm import LLM, SamplingParams
from vllm.inputs import TokensPrompt

root = Path(sys.argv[1])
def engine(path, **options):
    return LLM(str(path), skip_tokenizer_init=True, enforce_eager=True, max_model_len=256, max_num_seqs=4,
               dtype="bfloat16", enable_prefix_caching=True, seed=0, **options)

def save(path, seed):
    # Written by hand, so that the test needs vLLM and no modelling code.
    torch.manual_seed(seed)
    shapes = {"model.embed_tokens.weight": (128, 64), "model.norm.weight": (64,)}
    if sys.argv[2] != "tied":
        shapes["lm_head.weight"] = (128, 64)
    for i in range(2):
        at = f"model.layers.{i}."
        for part in "qkv":
            name = f"{at}self_attn.{part}_proj"
            shapes |= {f"{name}.weight": (64, 64), f"{name}.bias": (64,)}
        shapes |= {at + "self_attn.o_proj.weight": (64, 64), at + "mlp.gate_proj.weight": (96, 64),
                   at + "mlp.up_proj.weight": (96, 64), at + "mlp.down_proj.weight": (64, 96),
                   at + "input_layernorm.weight": (64,), at + "post_attention_layernorm.weight": (64,)}
    tensors = {n: (torch.randn(s) * 0.2 + ("norm" in n)).to(torch.bfloat16) for n, s in shapes.items()}
    path.mkdir()
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    config = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 128,
              "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
              "num_key_value_heads": 2, "tie_word_embeddings": sys.argv[2] == "tied", "hidden_act": "silu",
              "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16"}
    (path / "config.json").write_text(json.dumps(config))

for seed, name in enumerate(("low", "high")):
    save(root / name, seed)
alphas = [-0.5, 0.3, 1.5]
paths = dict(zip(alphas, merge.run(merge.plan(root / "low", root / "high", alphas), root / "merged")))

# 200 tokens are more than one block of the prefix cache.
prompt = TokensPrompt(prompt_token_ids=[(7 * i) % 128 for i in range(200)])
sampling = SamplingParams(temperature=0, max_tokens=24, logprobs=1, detokenize=False, ignore_eos=True)
def answer(llm):
    (out,) = llm.generate([prompt], sampling, use_tqdm=False)
    got = out.outputs[0]
    return [list(got.token_ids), [lp[t].logprob for lp, t in zip(got.logprobs, got.token_ids)],
            out.num_cached_tokens]

live = engine(root / "high", worker_extension_cls=EXTENSION)
base = answer(live)
found = []
for alpha in alphas + alphas[::-1] + [alphas[0]]:
    set_alpha(live, root / "low", root / "high", alpha)
    first, again = answer(live), answer(live)
    found.append([alpha, first, again])
refused = ""
try:
    set_alpha(live, root / "low", root / "merged", 0.5)
except UserError as error:
    refused = str(error)
expected = {alpha: answer(engine(path)) for alpha, path in paths.items()}
json.dump({"base": base, "found": found, "expected": list(expected.items()), "refused": refused},
          open(root / "answers.json", "w"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("head", ["tied", "untied"])
def test_alternating_alphas_answer_as_the_merged_checkpoints_do(tmp_path: Path, head: str) -> None:
    """Token for token and log-probability for log-probability, and never from the cache of another alpha."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), head],
        capture_output=True, text=True, check=False, cwd=root, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    answers = json.loads((tmp_path / "answers.json").read_text())
    expected = dict(answers["expected"])
    assert len({tuple(tokens) for tokens, _, _ in expected.values()}) == len(expected)
    assert len(answers["found"]) == 7
    for alpha, first, again in answers["found"]:
        tokens, logprobs, _ = expected[alpha]
        assert first[0] == tokens, alpha
        assert first[1] == logprobs, alpha
        assert first[2] == 0, f"alpha {alpha} began with tokens that another alpha had cached"
        assert again[0] == tokens
        assert again[2] > 0  # the cache is at work, so the line above means something
    assert "no config.json" in answers["refused"] or "neither" in answers["refused"]
