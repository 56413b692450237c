"""Training: warm start and GRPO on one machine. The modules import torch; this package does not."""

from cef_env.training.config import Config, load_config, presets

__all__ = ["Config", "load_config", "presets"]
