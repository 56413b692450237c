"""One warm start for all tests of training: four steps, so it writes no program."""

from pathlib import Path

import pytest
import torch

from cef_env.training.sft import train_sft
from tests.training.tiny import quiet, tiny


@pytest.fixture(scope="session")
def warm_start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return train_sft(tiny(), tmp_path_factory.mktemp("sft"), quiet)
