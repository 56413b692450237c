"""A small tokenizer with Qwen2.5's chat form; needs nothing that is downloaded."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    pytest.importorskip("transformers")
    from cef_env.training.config import SFTConfig, TokenizerConfig
    from cef_env.training.model import train_tokenizer

    return train_tokenizer(TokenizerConfig(vocab_size=300, lines=0, problems=20), SFTConfig(), seed=0)
