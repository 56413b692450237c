"""What the tests with the real vLLM share. They need an environment of their own: `make test-vllm`."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cef_env.envs import ToolUseEnv
from cef_env.envs.text import fenced
from cef_env.envs.tools import call_text, responses_text
from cef_env.problems import Problem, ProblemSet, TestCase

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "OMP_NUM_THREADS": "1",
    "NO_PROXY": "127.0.0.1",
}
if find_spec("vllm"):  # the tests of the other folders keep theirs
    os.environ |= ENVIRONMENT

CALL = call_text("python", "code", "print(6 * 7)")
MADE_UP = "\n<tool_response>\n41\n</tool_response>\n"
"""What the model goes on with after its call, unless it is stopped."""
ANSWER = fenced("print(2 * int(input()))")
ENGINE = {"dtype": "float32", "enforce_eager": True}


@pytest.fixture(scope="session")
def double() -> ProblemSet:
    tests = tuple(TestCase(str(number), f"{2 * number}\n") for number in (1, 23, 456))
    return ProblemSet.of([Problem("double", "Double", "Read one integer and print its double.", tests)])


@pytest.fixture(scope="session")
def checkpoint(double: ProblemSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that has learned one thing by heart: to play ToolUse on `double`, call first."""
    import torch

    from cef_env.training import load_config
    from cef_env.training.config import Config
    from cef_env.training.data import answer_logprobs, pad_batch
    from cef_env.training.model import build_model, save_checkpoint, train_tokenizer

    torch.set_num_threads(2)
    data = load_config("smoke").model_dump()
    data["tokenizer"] |= {"problems": 60}
    data["model"] |= {"layers": 2, "hidden_size": 128, "heads": 2, "kv_heads": 1, "max_length": 2048}
    config = Config.model_validate(data)  # heads of 64: vLLM has no kernel for smaller ones
    tokenizer = train_tokenizer(config.tokenizer, config.sft, seed=0)
    model = build_model(config.model, tokenizer, seed=0)

    env = ToolUseEnv(problems=double)
    messages = [{"role": "user", "content": env.reset()[0]}]
    env.close()
    response = f"{responses_text(['42'])}Messages left: 7\n"
    later = [*messages, {"role": "assistant", "content": CALL}, {"role": "user", "content": response}]

    def encode(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    prompts = [
        encode(tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True))
        for said in (messages, later)
    ]
    answers = [encode(text + tokenizer.eos_token) for text in (CALL + MADE_UP, ANSWER)]
    ids, mask = pad_batch(prompts, answers, tokenizer.pad_token_id)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(300):
        loss = -(answer_logprobs(model, ids) * mask[:, 1:]).sum() / mask.sum()
        if loss < 0.01:
            break
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert loss < 0.01
    path = tmp_path_factory.mktemp("tiny") / "model"
    save_checkpoint(path, model, tokenizer)
    return path


@pytest.fixture(scope="session")
def server(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of vLLM's own server, which knows the checkpoint as `tiny`."""
    import httpx

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(checkpoint)]
    command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "float32", "--enforce-eager", "--logprobs-mode", "processed_logprobs"]
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 600
        while not _healthy(httpx, f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _healthy(httpx: Any, url: str) -> bool:
    try:
        return bool(httpx.get(url).status_code == 200)
    except httpx.TransportError:
        return False
