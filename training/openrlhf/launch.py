"""From a configuration to the commands of a launch: warm start, RL at each coverage, merge.

    launch(config, folder) -> stages, each one command line
    write(config, folder)  -> launch.sh, agent.py, agent.json

The folder is shipped to every node by Ray as the working directory of the job; checkpoints go to
`config.run`, which all nodes share. Does not run anything (see `cef openrlhf command --submit`).
"""

import json
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cef_env.errors import UserError
from cef_env.files import write_atomic
from cef_env.training.openrlhf import fields
from cef_env.training.openrlhf.config import LaunchConfig, Value
from cef_env.training.openrlhf.prompts import data_files

Fields = dict[str, Value]
AGENT = '''"""What OpenRLHF loads by --train.agent_func_path; the environment is in agent.json beside it."""

from cef_env.training.openrlhf.executor import executor_for

AgentExecutor = executor_for(__file__)
'''


@dataclass(frozen=True)
class Stage:
    """One command of the launch."""

    name: Literal["export", "sft", "low", "high", "merge"]
    about: str
    command: tuple[str, ...]
    result: Path
    """What it leaves."""

    def text(self) -> str:
        """The command for a shell, a field with its values on each line."""
        lines, line = [], ""
        for word in self.command:
            if word.startswith("--") and line:
                lines.append(line)
                line = "    " + shlex.quote(word)
            else:
                line = f"{line} {shlex.quote(word)}" if line else shlex.quote(word)
        return " \\\n".join([*lines, line])


def launch(config: LaunchConfig, folder: Path, config_name: str) -> list[Stage]:
    """Every stage, in order. `config_name` is how the export line names the configuration.

    Raises `UserError` for a model that is not there, and for fields that the configuration sets itself.
    """
    require_model(config.model)
    run, address = Path(config.run), config.cluster.address
    stages = [
        Stage("export", "the prompts", ("cef", "openrlhf", "export", config_name, "--out", str(folder)),
              folder / "data"),
    ]  # fmt: skip
    if config.sft is not None:
        stages.append(
            Stage(
                "sft",
                "the warm start",
                (*_deepspeed(config), *words(sft_fields(config, folder))),
                run / "sft" / "model",
            )
        )
    environment = json.dumps({"working_dir": str(folder)})
    submit = ["ray", "job", "submit", *(["--address", address] if address else [])]
    for name, k in config.coverages.items():
        job = (*submit, "--runtime-env-json", environment, "--", "python3", "-m", fields.MODULES["rl"])
        about = f"RL with reward R_{'inf' if k is None else k}"
        stages.append(Stage(name, about, (*job, *words(rl_fields(config, name))), run / name / "model"))
    if len(config.coverages) == 2:
        low, high, out = (str(run / part) for part in ("low/model", "high/model", "merged"))
        command = ("cef", "merge", low, high, "--alpha", config.alphas, "--out", out)
        stages.append(Stage("merge", "weights inside and outside [0, 1]", command, run / "merged"))
    return stages


def write(config: LaunchConfig, folder: Path, config_name: str) -> Path:
    """Writes the launch folder, but for its data; returns the script."""
    stages = launch(config, folder, config_name)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "agent.py", AGENT)
    write_atomic(folder / "agent.json", config.agent.model_dump_json(indent=1) + "\n")
    write_atomic(folder / "launch.sh", script(config, stages))
    return folder / "launch.sh"


def script(config: LaunchConfig, stages: list[Stage]) -> str:
    """All stages as a shell script."""
    about = f"# {config.name}: every stage, in order. Stops at the first that fails."
    parts = [f"#!/usr/bin/env bash\n{about}\nset -eu"]
    parts += [f"# {stage.name}: {stage.about} -> {stage.result}\n{stage.text()}" for stage in stages]
    return "\n\n".join(parts) + "\n"


def words(chosen: Fields) -> list[str]:
    """Fields as words of a command line."""
    out: list[str] = []
    for name, value in chosen.items():
        if value is None or value is False:
            continue
        out.append(f"--{name}")
        if value is not True:
            out += [_word(one) for one in (value if isinstance(value, list) else [value])]
    return out


def _word(value: int | float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def rl_fields(config: LaunchConfig, name: str) -> Fields:
    """The fields of one RL run."""
    cluster, rollout, rl = config.cluster, config.rollout, config.rl
    here = Path(config.run) / name
    nodes = cluster.train_nodes or cluster.nodes
    files = data_files(config)
    own: Fields = {
        "actor.model_name_or_path": config.model if config.sft is None else f"{config.run}/sft/model",
        "train.agent_func_path": "agent.py",
        "data.prompt_dataset": files[name],
        "data.input_key": "prompt",
        "data.label_key": "label",
        "data.apply_chat_template": True,
        "data.max_len": rollout.max_length,
        "rollout.batch_size": rollout.prompts,
        "rollout.n_samples_per_prompt": rollout.samples,
        "rollout.temperature": rollout.temperature,
        "train.batch_size": rl.batch_size,
        "train.num_episodes": rl.epochs,
        "train.max_tokens_per_gpu": rl.tokens_per_gpu,
        "train.seed": rl.seed,
        "algo.advantage.estimator": rl.estimator,
        "algo.kl.init_coef": rl.kl_coef,
        "algo.kl.use_loss": rl.kl_coef > 0,
        "algo.kl.estimator": "k2" if rl.kl_coef > 0 else None,
        "algo.dynamic_filtering_enable": rl.dynamic_sampling,
        "algo.dynamic_filtering_range": [0, config.reward.most] if rl.dynamic_sampling else None,
        "actor.eps_clip_low_high": list(rl.clip),
        "actor.adam.lr": rl.learning_rate,
        "actor.num_nodes": nodes,
        "actor.num_gpus_per_node": cluster.gpus_per_node,
        "ref.num_nodes": nodes,
        "ref.num_gpus_per_node": cluster.gpus_per_node,
        "vllm.num_engines": cluster.engines,
        "vllm.tensor_parallel_size": cluster.tensor_parallel,
        "ds.ring_attn_size": rl.ring_attention if rl.ring_attention > 1 else None,
        "ds.adam_offload": rl.offload,
        "ckpt.output_dir": str(here / "model"),
        "ckpt.path": str(here / "checkpoints"),
        "ckpt.save_steps": rl.save_steps,
        "ckpt.load_enable": True,
        "logger.tensorboard_dir": str(here / "tensorboard"),
        "eval.dataset": files.get("eval"),
        "eval.steps": rl.save_steps if "eval" in files else None,
        "eval.n_samples_per_prompt": rollout.eval_samples if "eval" in files else None,
        "eval.temperature": rollout.eval_temperature if "eval" in files else None,
    }
    if cluster.train_nodes is None:
        own |= {"train.colocate_all": True, "vllm.enable_sleep": True, "ds.enable_sleep": True}
    else:
        own |= {"train.async_enable": True, "train.colocate_actor_ref": rl.kl_coef > 0}
    defaults: Fields = {
        "rollout.micro_batch_size": 1,
        "rollout.max_tokens_per_gpu": 2 * rl.tokens_per_gpu,
        "train.micro_batch_size": 1,
        "train.dynamic_batch_enable": True,
        # Sampler and trainer disagree by a little; tokens where they disagree by much are left out.
        "algo.advantage.is_correction_level": "token",
        "vllm.gpu_memory_utilization": 0.6 if cluster.train_nodes is None else 0.9,
        "vllm.enable_prefix_caching": True,
        "ds.zero_stage": 3,
        "ds.param_dtype": "bf16",
        "ds.packing_samples": True,
        "actor.gradient_checkpointing_enable": True,
        "actor.entropy_coef": 0,
    }
    if cluster.train_nodes is not None:
        defaults |= {"train.partial_rollout_enable": True, "train.async_queue_size": 1}
    return _merged("rl", own, defaults, config.openrlhf.rl)


def sft_fields(config: LaunchConfig, folder: Path) -> Fields:
    """The fields of the warm start."""
    sft = config.sft
    assert sft is not None
    here = Path(config.run) / "sft"
    own: Fields = {
        "model.model_name_or_path": config.model,
        "data.dataset": sft.dataset or str(folder / data_files(config)["sft"]),
        "data.input_key": "messages",
        "data.apply_chat_template": True,
        "data.multiturn": True,
        "data.max_len": sft.max_length,
        "train.batch_size": sft.batch_size,
        "train.max_epochs": sft.epochs,
        "train.seed": config.rl.seed,
        "adam.lr": sft.learning_rate,
        "ckpt.output_dir": str(here / "model"),
        "ckpt.path": str(here / "checkpoints"),
        "ckpt.load_enable": True,
        "logger.tensorboard_dir": str(here / "tensorboard"),
    }
    defaults: Fields = {
        "train.micro_batch_size": 1,
        "model.gradient_checkpointing_enable": True,
        "ds.zero_stage": 3,
        "ds.param_dtype": "bf16",
        "ds.packing_samples": True,
    }
    return _merged("sft", own, defaults, config.openrlhf.sft)


def _merged(command: fields.Command, own: Fields, defaults: Fields, given: Fields) -> Fields:
    for name in given:
        if name in own:
            raise UserError(
                f"key openrlhf.{command}.{name}: this field follows from other keys; set those instead"
            )
    return own | defaults | given


def _deepspeed(config: LaunchConfig) -> tuple[str, ...]:
    cluster = config.cluster
    hosts: tuple[str, ...] = ()
    if cluster.nodes > 1:
        hosts = ("--hostfile", str(cluster.hostfile), "--num_nodes", str(cluster.nodes))
    return ("deepspeed", *hosts, "--num_gpus", str(cluster.gpus_per_node), "--module", fields.MODULES["sft"])


def require_model(model: str) -> None:
    """`UserError` when a model is neither a checkpoint folder nor the name of one on the hub."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UserError(f"key model: {model!r} has no config.json; give a folder in Hugging Face format")
        return
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", model):
        raise UserError(
            f"key model: there is no folder {model!r}; give one, or a name on the hub (OWNER/NAME)"
        )
    if os.environ.get("HF_HUB_OFFLINE", "0").lower() in ("1", "true", "yes", "on"):
        from huggingface_hub import try_to_load_from_cache

        if not isinstance(try_to_load_from_cache(model, "config.json"), str):
            raise UserError(f"key model: {model!r} is not in the hub's cache here, and HF_HUB_OFFLINE is set")
