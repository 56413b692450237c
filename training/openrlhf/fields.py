"""The fields of OpenRLHF's command lines, so that one it does not know is refused where it is not installed.

Taken from the parsers of OpenRLHF 0.11.2; `tests/openrlhf/test_parser.py` compares them with the real ones.
"""

from difflib import get_close_matches
from typing import Literal

Command = Literal["rl", "sft"]
MODULES: dict[Command, str] = {"rl": "openrlhf.cli.train_ppo_ray", "sft": "openrlhf.cli.train_sft"}

_RL_SWITCHES = """
actor.freeze_visual_encoder actor.gradient_checkpointing_enable actor.gradient_checkpointing_reentrant
actor.muon.nesterov actor.muon.no_nesterov algo.advantage.no_std_norm algo.dynamic_filtering_enable
algo.kl.unbiased_gradient algo.kl.use_loss ckpt.disable_ds ckpt.load_enable ckpt.save_hf
critic.muon.nesterov critic.muon.no_nesterov critic.save_value_network data.apply_chat_template
data.disable_fast_tokenizer ds.adam_offload ds.deepcompile ds.enable_sleep ds.load_in_4bit
ds.overlap_comm ds.packing_samples ds.use_liger_kernel ds.use_universal_ckpt ref.offload
reward.normalize_enable reward.offload train.async_enable train.colocate_actor_ref train.colocate_all
train.colocate_critic_reward train.dynamic_batch_enable train.enable_ema train.full_determinism_enable
train.partial_rollout_enable use_ms vllm.enable_prefix_caching vllm.enable_sleep vllm.enforce_eager
vllm.sync_with_ray
"""
_RL_VALUES = """
actor.adam.betas actor.adam.eps actor.adam.lr actor.adam.weight_decay actor.aux_loss_coef
actor.dual_clip actor.entropy_coef actor.eps_clip actor.eps_clip_low_high actor.loss_agg_mode
actor.lr_scheduler actor.lr_warmup_ratio actor.max_norm actor.min_lr_ratio actor.model_name_or_path
actor.muon.lr actor.muon.momentum actor.muon.ns_steps actor.num_gpus_per_node actor.num_nodes
actor.optim actor.policy_loss_type algo.advantage.estimator algo.advantage.gamma
algo.advantage.is_correction_gating algo.advantage.is_correction_level
algo.advantage.is_correction_mode algo.advantage.is_correction_threshold algo.advantage.lambd
algo.dynamic_filtering_range algo.kl.estimator algo.kl.horizon algo.kl.init_coef algo.kl.target
ckpt.best_metric_key ckpt.max_mem ckpt.max_num ckpt.output_dir ckpt.path ckpt.save_steps
critic.adam.betas critic.adam.eps critic.adam.lr critic.adam.weight_decay critic.freezing_steps
critic.lr_scheduler critic.lr_warmup_ratio critic.max_norm critic.min_lr_ratio
critic.model_name_or_path critic.muon.lr critic.muon.momentum critic.muon.ns_steps
critic.num_gpus_per_node critic.num_nodes critic.optim critic.value_clip data.dataloader_num_workers
data.image_key data.input_key data.input_template data.label_key data.max_images_per_prompt
data.max_len data.max_samples data.prompt_dataset data.prompt_probs data.prompt_split
ds.attn_implementation ds.experts_implementation ds.grad_accum_dtype ds.lora.alpha ds.lora.dropout
ds.lora.rank ds.lora.target_modules ds.param_dtype ds.ring_attn_head_stride ds.ring_attn_size
ds.tensor_parallel_size ds.value_head_prefix ds.zero_stage ds.zpg eval.dataset
eval.n_samples_per_prompt eval.split eval.steps eval.temperature local_rank logger.logging_steps
logger.tensorboard_dir logger.wandb.group logger.wandb.key logger.wandb.org logger.wandb.project
logger.wandb.run_name ref.num_gpus_per_node ref.num_nodes reward.clip_range reward.model_name_or_path
reward.num_gpus_per_node reward.num_nodes reward.overlong_buffer_len reward.overlong_penalty_factor
reward.remote_url reward.stop_properly_penalty_coef rollout.batch_size rollout.max_new_tokens
rollout.max_tokens_per_gpu rollout.micro_batch_size rollout.n_samples_per_prompt rollout.temperature
rollout.top_p rollout.vllm_generate_batch_size train.agent_func_path train.async_queue_size
train.batch_size train.ema_beta train.max_epochs train.max_tokens_per_gpu train.micro_batch_size
train.num_episodes train.seed vllm.gpu_memory_utilization vllm.num_engines vllm.sync_backend
vllm.tensor_parallel_size
"""
_SFT_SWITCHES = """
ckpt.disable_ds ckpt.load_enable ckpt.save_hf data.apply_chat_template data.disable_fast_tokenizer
data.multiturn ds.adam_offload ds.deepcompile ds.load_in_4bit ds.overlap_comm ds.packing_samples
ds.use_liger_kernel ds.use_universal_ckpt model.gradient_checkpointing_enable
model.gradient_checkpointing_reentrant model.pretrain_mode_enable muon.nesterov muon.no_nesterov
train.full_determinism_enable use_ms
"""
_SFT_VALUES = """
adam.betas adam.eps adam.lr adam.weight_decay ckpt.max_mem ckpt.max_num ckpt.output_dir ckpt.path
ckpt.save_steps data.dataloader_num_workers data.dataset data.dataset_probs data.dataset_split
data.input_key data.input_template data.max_len data.max_samples data.output_key
data.tokenizer_chat_template ds.attn_implementation ds.experts_implementation ds.grad_accum_dtype
ds.lora.alpha ds.lora.dropout ds.lora.rank ds.lora.target_modules ds.param_dtype
ds.ring_attn_head_stride ds.ring_attn_size ds.tensor_parallel_size ds.zero_stage ds.zpg eval.dataset
eval.split eval.steps local_rank logger.logging_steps logger.tensorboard_dir logger.wandb.group
logger.wandb.key logger.wandb.org logger.wandb.project logger.wandb.run_name lr_scheduler
lr_warmup_ratio max_norm min_lr_ratio model.aux_loss_coef model.model_name_or_path muon.lr
muon.momentum muon.ns_steps optim train.batch_size train.max_epochs train.micro_batch_size train.seed
"""

SWITCHES: dict[Command, frozenset[str]] = {
    "rl": frozenset(_RL_SWITCHES.split()),
    "sft": frozenset(_SFT_SWITCHES.split()),
}
"""Fields without a value, by command."""
VALUES: dict[Command, frozenset[str]] = {
    "rl": frozenset(_RL_VALUES.split()),
    "sft": frozenset(_SFT_VALUES.split()),
}
"""Fields with one or more values, by command."""


def require(command: Command, name: str, value: object) -> None:
    """`ValueError` when OpenRLHF has no such field, or gives it no such value."""
    if name not in SWITCHES[command] | VALUES[command]:
        near = get_close_matches(name, sorted(SWITCHES[command] | VALUES[command]), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{command}.{name} is no field of {MODULES[command]} (OpenRLHF 0.11.2){hint}")
    if name in SWITCHES[command] and not isinstance(value, bool | None):
        raise ValueError(f"{command}.{name} is a switch: use true or false")
    if name in VALUES[command] and value is True:
        raise ValueError(f"{command}.{name} needs a value")
