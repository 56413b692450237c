"""Tiny real checkpoints on disk, made with transformers and never downloaded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.merge.checkpoints import make_model

Maker = Callable[..., Path]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Maker:
    """make(name, seed, shard=None, dtype=..., tied=..., **config) -> path of a saved checkpoint."""

    def make(name: str, seed: int, shard: str | None = None, **options: object) -> Path:
        path = tmp_path / name
        model = make_model(seed, **options)  # type: ignore[arg-type]
        model.save_pretrained(path, **({"max_shard_size": shard} if shard else {}))
        (path / "tokenizer.json").write_text('{"version": "1.0"}')
        (path / "chat_template.jinja").write_text("{{ messages }}")
        return path

    return make


@pytest.fixture
def pair(checkpoint: Maker) -> tuple[Path, Path]:
    """low in one file, high in shards."""
    return checkpoint("low", 0), checkpoint("high", 1, shard="8KB")
