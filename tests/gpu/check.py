"""What `check.sh` runs: the preset `gpu` without its report, then checks that only a device can fail.

agreement     log-probs of the trained checkpoint on the device and on the CPU, both in float32
merge         a merge written to disk answers as the same merge made on the device
learning      the warm start's loss fell, and RL moved the weights
repeatable    one RL step, done twice, gives the same weights (told, and no failure on CUDA)
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from cef_env.agents.transformers_agent import load_model
from cef_env.errors import UserError
from cef_env.eval import read_samples
from cef_env.experiment.stages import Run, claim_directory, run_stage, stages
from cef_env.judge import Judge, Outcome
from cef_env.merge import apply_alpha, plan
from cef_env.merge import run as merge
from cef_env.training.config import Config, load_config
from cef_env.training.data import answer_logprobs
from cef_env.training.grpo import train_rl
from cef_env.training.hardware import Hardware, make_repeatable
from cef_env.ui import Reporter

TINY: dict[str, Any] = {
    "model": {"hidden_size": 128, "intermediate_size": 256, "layers": 2, "heads": 4, "kv_heads": 4},
    "sft": {"steps": 120, "batch_size": 48, "learning_rate": 5e-3, "warmup_steps": 10},
    "rl": {
        "steps": 2,
        "problems_per_step": 3,
        "group_size": 4,
        "learning_rate": 1e-3,
        "save_every": 2,
        "reward": {"kind": "continuous"},
    },
    "sweep": {"alphas": (-1, 0, 0.5, 1, 2), "problems": {"hard": 4}, "samples": 2, "chunk_problems": 4},
    "precision": "bfloat16",
}
"""Put over the preset by CEF_GPU_CHECK_TINY: bfloat16 because the preset has it on a card, and partial credit
because so small a model earns nothing else."""
MERGED = (0.5, 1.5)
MAX_GAP = 2e-3
"""Nats between log-probs of two devices, in float32."""


def configured(tiny: bool) -> Config:
    config = load_config("gpu")
    if not tiny:
        return config
    data = config.model_dump()
    for key, value in TINY.items():
        data[key] = data[key] | value if isinstance(value, dict) else value
    return Config.model_validate(data)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def logprobs(model: Any, device: torch.device) -> torch.Tensor:
    """Log-probs of a fixed text, on the CPU."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, model.config.vocab_size, (4, 64), generator=generator)
    with torch.no_grad():
        return answer_logprobs(model.to(device), ids.to(device)).cpu()


def gap(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(f"{(one - other).abs().max().item():.3g}")


def endpoints(run: Run) -> dict[str, Any]:
    """Checks on the two trained checkpoints and their merges."""
    device = Hardware.choose("float32").device
    high, _ = load_model(run.endpoint("high"))
    agreement = gap(logprobs(high, torch.device("cpu")), logprobs(high, device))
    written = merge(plan(run.endpoint("low"), run.endpoint("high"), MERGED), run.root / "merged")
    gaps = []
    for alpha, path in zip(MERGED, written, strict=True):
        apply_alpha(high, run.endpoint("low"), run.endpoint("high"), alpha)
        gaps.append(gap(logprobs(high, device), logprobs(load_model(path)[0], device)))
    return {"device_cpu_gap": agreement, "merge_gap": max(gaps)}


def repeatable(run: Run) -> bool:
    """Whether one RL step, done twice, leaves the same bytes."""
    config = run.config.model_copy(update={"rl": run.config.rl.model_copy(update={"steps": 1})})
    files = []
    for name in ("once", "twice"):
        path = train_rl(config, 2, run.warm_start, run.root / name, run.judge, lambda *_: None)
        files.append((path / "model.safetensors").read_bytes())
    return files[0] == files[1]


def summary(run: Run, started: float) -> dict[str, Any]:
    cuda = torch.cuda.is_available()
    sft = rows(run.root / "sft" / "log.jsonl")
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "torch": torch.__version__,
        "bfloat16": Hardware.choose(run.config.precision).bfloat16,
        "sandbox": str(run.judge.tier),
        "parameters": sum(p.numel() for p in load_model(run.warm_start)[0].parameters()),
        "sft_loss": [sft[0]["loss"], sft[-1]["loss"]],
    }
    for name in ("low", "high"):
        log = rows(run.root / f"rl_{name}" / "log.jsonl")
        seconds = rows(run.root / f"rl_{name}" / "seconds.jsonl")
        found[f"rl_{name}"] = {
            "reward": [row["reward"] for row in log],
            "logprob_gap": max(row["logprob_gap"] for row in log),
            "seconds_per_step": {
                phase: round(sum(row[phase] for row in seconds) / len(seconds), 3)
                for phase in ("sample", "judge", "update")
            },
        }
    samples = read_samples(run.root / "sweep" / "samples.jsonl")
    found["sweep"] = {
        f"{split} {alpha:g}": {
            str(outcome): round(
                sum(s.outcome is outcome for s in samples if (s.split, s.alpha) == (split, alpha))
                / (run.config.sweep.problems[split] * run.config.sweep.samples),
                3,
            )
            for outcome in Outcome
        }
        for split in run.config.sweep.problems
        for alpha in run.config.sweep.alphas
    }
    found |= endpoints(run)
    found["repeatable"] = repeatable(run)
    found["peak_gpu_mib"] = round(torch.cuda.max_memory_allocated() / 2**20) if cuda else None
    found["stage_s"] = {
        name: json.loads((run.root / name / "manifest.json").read_text())["wall_s"]
        for name in stages(run.config)
        if name != "report"
    }
    weights = [(run.endpoint(name) / "model.safetensors").read_bytes() for name in ("low", "high")] + [
        (run.warm_start / "model.safetensors").read_bytes()
    ]
    found["checks"] = {
        "agreement": found["device_cpu_gap"] <= MAX_GAP,
        "merge": found["merge_gap"] <= MAX_GAP,
        "learning": sft[-1]["loss"] < sft[0]["loss"] / 2 and len(set(weights)) >= 2,
        "repeatable": found["repeatable"] or cuda,
    }
    found["wall_s"] = round(time.monotonic() - started, 1)
    return found


def main() -> int:
    started = time.monotonic()
    tiny = os.environ.get("CEF_GPU_CHECK_TINY") == "1"
    if not tiny and not torch.cuda.is_available():
        raise UserError("no CUDA device; set CEF_GPU_CHECK_TINY=1 to try the same path in small")
    config, out = configured(tiny), Path(sys.argv[1])
    make_repeatable()
    claim_directory(config, out)
    with Judge(cache=out / "judge.sqlite") as judge:
        run = Run(config, out, judge, Reporter())
        for name, work in stages(config).items():
            if name != "report":
                run_stage(run, name, work)
        found = summary(run, started)
    print(json.dumps(found, indent=1))
    return 0 if all(found["checks"].values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"error: {error}")
