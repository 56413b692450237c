"""OpenRLHF's own argument parsers and the checks that follow them, run without GPUs.

Its parsers stand under `__main__` of its commands. They are executed as they are, with stand-ins for what
only trains (vLLM, DeepSpeed, models), up to where training would begin.
"""

import argparse
import importlib
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock, patch

STAND_INS = (
    "vllm",
    "deepspeed",
    "peft",
    "openrlhf.trainer.ray",
    "openrlhf.trainer.ray.launcher",
    "openrlhf.trainer.ray.ppo_actor",
    "openrlhf.trainer.ray.ppo_critic",
    "openrlhf.models",
    "openrlhf.trainer.sft_trainer",
)


@contextmanager
def stand_ins(*names: str) -> Iterator[None]:
    """Modules that cannot be imported here, in name only. Others that are imported meanwhile stay: some
    libraries do not bear a second import."""
    saved = {name: sys.modules.get(name) for name in names}
    sys.modules.update({name: MagicMock(name=name) for name in names})
    try:
        yield
    finally:
        for name, module in saved.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


class _Parsed(Exception):  # noqa: N818 (no error: it carries the result)
    def __init__(self, args: Any, parser: argparse.ArgumentParser) -> None:
        self.args_, self.parser = args, parser


def parse(module: str, arguments: list[str]) -> tuple[Any, argparse.ArgumentParser]:
    """The validated arguments of one of OpenRLHF's commands, and its parser. No abbreviations.

    Raises what the command raises: `SystemExit` for a field it does not know, `AssertionError` for values
    that do not go together.
    """
    parsers: list[argparse.ArgumentParser] = []
    init = argparse.ArgumentParser.__init__

    def strict(self: argparse.ArgumentParser, *args: Any, **options: Any) -> None:
        init(self, *args, **{**options, "allow_abbrev": False})
        parsers.append(self)

    def stop(args: Any) -> None:
        raise _Parsed(args, parsers[0])

    utils = importlib.import_module("openrlhf.utils")
    with (
        stand_ins(*STAND_INS),
        patch.object(utils, "get_strategy", stop),
        patch("ray.is_initialized", lambda: True),
        patch.object(argparse.ArgumentParser, "__init__", strict),
        patch.object(sys, "argv", [module, *arguments]),
    ):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=False)
        except _Parsed as parsed:
            return parsed.args_, parsed.parser
    raise AssertionError(f"{module} did not reach its training")
