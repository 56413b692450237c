"""verl's own agent loop worker plays our environments; only the language model server is a stand-in."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="the package verl is not here; `make test-doors` installs it")

import numpy as np
from omegaconf import OmegaConf
from verl.experimental.agent_loop import agent_loop
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from cef_env.envs.text import fenced
from cef_env.envs.tool_use import ToolUseEnv
from cef_env.envs.tools import call_text
from cef_env.errors import UserError
from cef_env.problems import jsonl, load
from cef_env.sandbox import BoxError
from cef_env.training.config import SFTConfig, TokenizerConfig
from cef_env.training.doors import verl as door
from cef_env.training.model import train_tokenizer
from cef_env.training.openrlhf.environments import Label, make_environment
from cef_env.training.openrlhf.settings import AgentSettings
from tests.conftest import double

RIGHT, WRONG = fenced("print(2 * int(input()))"), fenced("print(input())")
CALL = call_text("python", "code", "print(6 * 7)")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(TokenizerConfig(vocab_size=300, lines=0, problems=20), SFTConfig(), seed=0)


class Server:
    """Says what it is told, with ids and log-probs, as verl's client of an engine does."""

    def __init__(self, tokenizer: Any, replies: list[str]) -> None:
        self.tokenizer, self.replies, self.asked = tokenizer, list(replies), []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any) -> Any:
        self.asked.append(list(prompt_ids))
        ids = self.tokenizer(self.replies.pop(0))["input_ids"] + [self.tokenizer.eos_token_id]
        ids = ids[: sampling_params["max_tokens"]]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed")


class Setup:
    """A worker of verl for one launch, and the row of its one problem."""

    def __init__(self, folder: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, response: int) -> None:
        jsonl.write(folder / "problems.jsonl", [double("small", (1, 3, 30))])
        source = f"jsonl:{folder / 'problems.jsonl'}"
        told = {"environment": {"setting": "tool_use"}, "judge": {"backend": "local", "workers": 1}}
        settings = AgentSettings.model_validate(told)
        (folder / "agent.json").write_text(json.dumps(told))
        env = make_environment(settings, load(source), None, "train", None)
        observation = env.reset(options={"problem_id": "small"})[0]
        env.close()
        labels = [Label(source, "small", None, fixing=fixing).text() for fixing in (False, True)]
        exported = [{"prompt": observation, "label": label, "datasource": "train"} for label in labels]
        (row,) = door.rows(exported)  # that of online fixing is left out
        self.row = {**row, "raw_prompt": row["prompt"]}
        target = f"{door.CodingAgentLoop.__module__}.CodingAgentLoop"
        loop = OmegaConf.create({"_target_": target, "settings": str(folder / "agent.json")})
        monkeypatch.setitem(agent_loop._agent_loop_registry, "cef", loop)
        rollout = {"prompt_length": 4096, "response_length": response}
        config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
        self.worker = agent_loop.AgentLoopWorker.__new__(agent_loop.AgentLoopWorker)  # no engine, no Ray
        vars(self.worker).update(
            config=config,
            rollout_config=config.actor_rollout_ref.rollout,
            tokenizer=tokenizer,
            processor=None,
            hf_model_type="qwen2",
            dataset_cls=RLHFDataset,
            tools=[],
            mm_processor_kwargs={},
            reward_loop_worker_handles=None,
            distillation_enabled=False,
        )

    def play(self, *scripts: list[str]) -> Any:
        """Episodes at once, batched by verl: its DataProto."""
        self.servers = []

        async def one(script: list[str]) -> Any:
            self.worker.llm_client = Server(self.worker.tokenizer, script)
            self.servers.append(self.worker.llm_client)
            told = {"step": 0, "sample_index": 0, "rollout_n": 0, "validate": False}
            return await self.worker._run_agent_loop({"temperature": 1.0}, told, **self.row)

        async def batch() -> list[Any]:
            return await asyncio.gather(*(one(script) for script in scripts))

        return self.worker._postprocess(asyncio.run(batch()))


@pytest.fixture
def setup(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Setup:
    return Setup(tmp_path, tokenizer, monkeypatch, response=1024)


def test_rewards_and_outcomes_reach_the_batch(setup: Setup) -> None:
    batch = setup.play([CALL, RIGHT], [CALL, WRONG], ["I do not know."])
    assert batch.batch["rm_scores"].sum(1).tolist() == [1.0, 0.0, 0.0]
    assert batch.non_tensor_batch["__num_turns__"].tolist() == [4, 4, 2]
    assert batch.non_tensor_batch["cef_correct"].tolist() == [1.0, 0.0, 0.0]
    assert batch.non_tensor_batch["cef_no_code"].tolist() == [0.0, 0.0, 1.0]
    assert batch.non_tensor_batch["cef_tool_calls"].tolist() == [1.0, 1.0, 0.0]


def test_the_trained_tokens_are_the_sampled_ones(setup: Setup, tokenizer: Any) -> None:
    batch = setup.play([CALL, RIGHT]).batch
    mask = batch["response_mask"][0].bool()
    sampled = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in (CALL, RIGHT)]
    assert batch["responses"][0][mask].tolist() == sampled[0] + sampled[1]
    assert set(batch["rollout_log_probs"][0][mask].tolist()) == {-0.5}
    assert batch["rollout_log_probs"][0][~mask].abs().sum() == 0
    first, second = setup.servers[0].asked
    assert second[: len(first) + len(sampled[0])] == first + sampled[0]
    fed = tokenizer.decode(second[len(first) + len(sampled[0]) :])
    assert "<tool_response>\n42\n</tool_response>" in fed


def test_a_fault_is_flagged_and_nothing_of_it_is_trained_on(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise BoxError("the sandbox is gone")

    monkeypatch.setattr(ToolUseEnv, "_judged", broken)
    batch = setup.play([CALL, RIGHT], ["I do not know."])
    assert batch.non_tensor_batch["cef_error"].tolist() == [1.0, 0.0]
    assert batch.non_tensor_batch["cef_judged"].tolist() == [0.0, 1.0]
    assert batch.batch["response_mask"].sum(1)[0] == 0
    assert batch.batch["rm_scores"].sum() == 0


def test_an_episode_never_overruns_the_response_length(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = len(tokenizer(CALL)["input_ids"]) + 1
    for response in (20, call + 10, call + 60):
        folder = tmp_path / str(response)
        folder.mkdir()
        batch = Setup(folder, tokenizer, monkeypatch, response).play([CALL, CALL, CALL, CALL, CALL])
        assert batch.batch["responses"].shape[1] == response
        assert batch.non_tensor_batch["cef_out_of_tokens"].tolist() == [1.0]
        assert math.isclose(float(np.sum(batch.batch["rm_scores"].numpy())), 0.0)


def test_a_prompt_of_another_configuration_is_refused(setup: Setup) -> None:
    setup.row["raw_prompt"] = [{"role": "user", "content": "Print the double."}]
    with pytest.raises(UserError, match="export the prompts again"):
        setup.play([RIGHT])


def test_the_rows_pass_through_the_dataset_of_verl(setup: Setup, tokenizer: Any, tmp_path: Path) -> None:
    row = {name: value for name, value in setup.row.items() if name != "raw_prompt"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    config = OmegaConf.create({"max_prompt_length": 4096, "cache_dir": str(tmp_path / "cache")})
    (read,) = RLHFDataset([str(tmp_path / "rows.jsonl")], tokenizer, config)
    assert {name: read[name] for name in ("raw_prompt", "label", "agent_name")} == {
        name: setup.row[name] for name in ("raw_prompt", "label", "agent_name")
    }
