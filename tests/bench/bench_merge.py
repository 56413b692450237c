"""Merging against copying, and against mergekit where it is installed: time and memory, in one run.

    python tests/bench/bench_merge.py [--large] [--mergekit PYTHON]

Makes two checkpoints of 1 GB (and with --large of 4 GB) in the shape of a 0.5B model in a temporary folder
($TMPDIR), and compares on the same disk, each and each ratio the median of three rounds:

- one alpha (1.6, and 1.5, which has few bits) and six, in the process (after imports; plan, statistics and
  fsync included), with `cp` and `sync` of as many bytes as are written;
- the whole process, imports included, with mergekit's `linear` (PYTHON: an interpreter that has it);
- either with what writing as many bytes from memory on two threads and fsync take: nothing that writes them
  to this disk is faster. With TMPDIR=/dev/shm there is no disk.

An environment of `.[merge]` only is fairest to both: where scipy is installed, numba imports it (0.1 s).
Beside the seconds on the clock stand those of the processors (user and system), which other work on the
machine moves less. Peak memory is that of the whole process. Needs 14 GB of disk, 40 GB with --large.
"""

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

REPEATS = 3
SIX = "-0.5,-0.25,0.25,0.5,1.25,1.5"

MERGE = """
import os, re, sys, time
from pathlib import Path
import cef_env.merge.statistics, cef_env.merge.kernel
from cef_env.merge import plan, run
low, high, out, alphas = sys.argv[1:]
started, used = time.perf_counter(), time.process_time()
run(plan(low, high, map(float, alphas.split(","))), out)
seconds, used = time.perf_counter() - started, time.process_time() - used
peak = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())
print(seconds, used, int(peak[1]) / 1024)
"""


def make(folder: Path, gigabytes: int) -> None:
    """A checkpoint in bf16 with the tensors of Qwen2 0.5B, `gigabytes` times as many layers."""
    import json

    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    hidden, middle, vocabulary, layers = 896, 4864, 151936, 24 + 36 * (gigabytes - 1) * 15 // 16
    shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    for i in range(layers):
        at = f"model.layers.{i}."
        shapes |= {
            at + "self_attn.q_proj.weight": (hidden, hidden), at + "self_attn.q_proj.bias": (hidden,),
            at + "self_attn.k_proj.weight": (128, hidden), at + "self_attn.k_proj.bias": (128,),
            at + "self_attn.v_proj.weight": (128, hidden), at + "self_attn.v_proj.bias": (128,),
            at + "self_attn.o_proj.weight": (hidden, hidden),
            at + "mlp.gate_proj.weight": (middle, hidden), at + "mlp.up_proj.weight": (middle, hidden),
            at + "mlp.down_proj.weight": (hidden, middle),
            at + "input_layernorm.weight": (hidden,), at + "post_attention_layernorm.weight": (hidden,),
        }  # fmt: skip
    low = {name: (torch.randn(shape) * 0.02).bfloat16() for name, shape in shapes.items()}
    config = {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": hidden,
        "intermediate_size": middle, "num_hidden_layers": layers, "num_attention_heads": 14,
        "num_key_value_heads": 2, "vocab_size": vocabulary, "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
    }  # fmt: skip
    for name in ("low", "high"):
        if name == "high":
            for value in low.values():
                value.add_(torch.randn(value.shape) * 1e-3)
        (folder / name).mkdir()
        save_file(low, folder / name / "model.safetensors", {"format": "pt"})
        (folder / name / "config.json").write_text(json.dumps(config))


def children() -> float:
    """Seconds of processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def copies(folder: Path, count: int) -> tuple[float, float]:
    """Seconds, and seconds of processor time."""
    source = folder / "high" / "model.safetensors"
    started, used = time.perf_counter(), children()
    for i in range(count):
        (folder / "copy").mkdir(exist_ok=True)
        target = folder / "copy" / f"{i}.safetensors"
        subprocess.run(["cp", "--reflink=never", source, target], check=True)
        subprocess.run(["sync", target], check=True)
    seconds, used = time.perf_counter() - started, children() - used
    shutil.rmtree(folder / "copy")
    return seconds, used


def written(folder: Path, count: int) -> float:
    """Seconds to write `count` files of the checkpoint's size from memory, and to sync them."""
    size, data = (folder / "high" / "model.safetensors").stat().st_size, os.urandom(1 << 20)

    def write(i: int) -> None:
        with (folder / f"written{i}").open("wb", buffering=0) as stream:
            for _ in range(size >> 20):
                stream.write(data)
            os.fsync(stream.fileno())

    started = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(count)))
    seconds = time.perf_counter() - started
    for i in range(count):
        (folder / f"written{i}").unlink()
    return seconds


def merged(folder: Path, alphas: str) -> tuple[float, float, float, float]:
    """Seconds and seconds of processor time in the process, seconds of the process, peak MB."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        MERGE,
        folder / "low",
        folder / "high",
        folder / "out",
        alphas,
    ]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    whole = time.perf_counter() - started
    shutil.rmtree(folder / "out")
    inside, used, peak = map(float, done.stdout.split())
    return inside, used, whole, peak


def mergekit(python: str, folder: Path, alphas: str) -> tuple[float, float]:
    """Seconds of as many processes as alphas, peak MB."""
    seconds, peak = 0.0, 0.0
    script = Path(python).with_name("mergekit-yaml")
    for alpha in map(float, alphas.split(",")):
        models = [f"{{model: {folder / 'high'}, parameters: {{weight: {alpha}}}}}",
                  f"{{model: {folder / 'low'}, parameters: {{weight: {1 - alpha}}}}}"]  # fmt: skip
        recipe = folder / "recipe.yaml"
        recipe.write_text(f"merge_method: linear\nmodels: [{', '.join(models)}]\ndtype: bfloat16\n")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        started = time.perf_counter()
        command = [python, script, recipe, folder / "mk", "--no-copy-tokenizer", "--quiet"]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        while process.poll() is None:
            found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            peak = max(peak, int(found[1]) / 1024) if found else peak
            time.sleep(0.05)
        subprocess.run(["sync", *(folder / "mk").glob("*.safetensors")], check=True)  # as ours does
        seconds += time.perf_counter() - started
        if process.returncode:
            assert process.stderr is not None
            raise SystemExit(process.stderr.read().decode()[-2000:])
        shutil.rmtree(folder / "mk")
    return seconds, peak


def arithmetic() -> None:
    """Nanoseconds of one thread for an element and alpha, in chunks as `run` takes them."""
    import numpy as np

    from cef_env.merge.kernel import Chunk
    from cef_env.merge.stream import CHUNK

    random = np.random.default_rng(0)
    low = (random.standard_normal(CHUNK) * 0.02).astype(np.float32)
    high = low + (random.standard_normal(CHUNK) * 1e-3).astype(np.float32)
    chunk = Chunk([(values.view(np.uint32) >> 16).astype(np.uint16) for values in (low, high)], "BF16")
    for alphas in ("1.6", "1.5", SIX):
        weights = [(1 - alpha, alpha) for alpha in map(float, alphas.split(","))]
        outs = [np.empty(CHUNK, np.uint16) for _ in weights]
        times = []
        for _ in range(100):
            started = time.perf_counter()
            chunk.merge_each(weights, outs, [None] * len(weights))
            times.append((time.perf_counter() - started) / CHUNK / len(weights))
        print(f"arithmetic at {alphas}: {statistics.median(times) * 1e9:.2f} ns an element and alpha")


def compare(folder: Path, python: str | None) -> None:
    size = (folder / "high" / "model.safetensors").stat().st_size / 1e9
    copies(folder, 1)  # fills the page cache, for both
    merged(folder, "1.6")
    for name, alphas in (("alpha 1.6", "1.6"), ("alpha 1.5", "1.5"), ("6 alphas", SIX)):
        count = len(alphas.split(","))
        # Turn and turn about, so that a busy minute on the machine meets all.
        rounds = [
            (
                copies(folder, count),
                written(folder, count),
                merged(folder, alphas),
                mergekit(python, folder, alphas) if python and size < 2 else None,
            )
            for _ in range(REPEATS)
        ]
        copied, copied_cpu = (statistics.median(copy[i] for copy, *_ in rounds) for i in range(2))
        floor = statistics.median(floor for _, floor, *_ in rounds)
        inside, cpu, whole, peak = (statistics.median(ours[i] for *_, ours, _ in rounds) for i in range(4))
        ratio, cpu_ratio = (
            statistics.median(ours[i] / copy[i] for copy, _, ours, _ in rounds) for i in range(2)
        )
        print(
            f"{size:.2f} GB, {name}: cp + sync {copied:.2f} s; merge {inside:.2f} s = {ratio:.2f}x; "
            f"processors {copied_cpu:.2f} s, {cpu:.2f} s = {cpu_ratio:.2f}x; "
            f"whole process {whole:.2f} s, peak {peak:.0f} MB; written from memory {floor:.2f} s; "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        pairs = [(ours[2], theirs) for *_, ours, theirs in rounds if theirs]
        if pairs:
            theirs, theirs_peak = (statistics.median(theirs[i] for _, theirs in pairs) for i in range(2))
            times = statistics.median(theirs[0] / ours for ours, theirs in pairs)
            print(
                f"{size:.2f} GB, {name}: mergekit linear {theirs:.1f} s, peak {theirs_peak:.0f} MB = "
                f"{times:.1f}x of ours",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--mergekit", metavar="PYTHON")
    arguments = parser.parse_args()
    arithmetic()
    for gigabytes in (1, 4) if arguments.large else (1,):
        with tempfile.TemporaryDirectory() as name:
            make(Path(name), gigabytes)
            compare(Path(name), arguments.mergekit)


if __name__ == "__main__":
    main()
