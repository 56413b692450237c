"""Tool use and agentic coding in the miniature: scripted episodes, their tokens, learning on all turns."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cef_env.agents import Reply, Trajectory
from cef_env.agents.chat import prompt_ids
from cef_env.agents.transformers_agent import load_model, sample
from cef_env.envs.tool_calls import ToolCall, parse_tool_calls
from cef_env.envs.tool_use import ToolUseEnv
from cef_env.errors import UserError
from cef_env.judge import Judge, Outcome
from cef_env.problems import builtin
from cef_env.training import load_config
from cef_env.training.config import Config
from cef_env.training.data import answer_logprobs
from cef_env.training.grpo import train_rl
from cef_env.training.hardware import Hardware
from cef_env.training.learner import Learner
from cef_env.training.model import train_tokenizer
from cef_env.training.scripted import trial
from cef_env.training.settings import problems_of, samples_text
from cef_env.training.sft import train_sft
from cef_env.training.trajectories import Conversation, encode, tool_tokens, trajectory_pool
from tests.training.tiny import quiet, tiny

SETTINGS = ("tool_use", "agentic")


def of(setting: str, **sections: dict[str, Any]) -> Config:
    config = tiny(**sections)
    return config.model_copy(
        update={
            "setting": setting,
            "sft": config.sft.model_copy(update={"episodes": 6}),
            "rl": config.rl.model_copy(update={"problems_per_step": 1, "group_size": 2}),
        }
    )


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory, judge: Judge) -> dict[str, list[Conversation]]:
    folder = tmp_path_factory.mktemp("pools")
    made = {}
    for setting in SETTINGS:
        (folder / setting).mkdir()
        made[setting] = trajectory_pool(of(setting), folder / setting, judge, quiet)
    return made


@pytest.fixture(scope="module")
def warm_starts(
    tmp_path_factory: pytest.TempPathFactory, judge: Judge, pools: dict[str, list[Conversation]]
) -> dict[str, Path]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("warm")
    return {setting: train_sft(of(setting), folder / setting, quiet, judge) for setting in SETTINGS}


@pytest.mark.parametrize("setting", SETTINGS)
def test_scripted_episodes_try_a_program_on_the_samples_before_they_hand_in(
    pools: dict[str, list[Conversation]], setting: str
) -> None:
    for conversation in pools[setting]:
        answers = [message["content"] for message in conversation[2::2]]
        assert answers, "no episode ends with its first message"
        assert all("of 2 samples passed" in answer for answer in answers)
        # Handed in is what passed, or whatever there is with the last message.
        assert "2 of 2 samples" in answers[-1] or "Messages left: 1\n" in answers[-1]
        assert not any("2 of 2 samples" in answer for answer in answers[:-1])


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_sampler_is_fed_with_exactly_the_tokens_that_were_learnt(
    pools: dict[str, list[Conversation]], setting: str
) -> None:
    config = of(setting)
    tokenizer = train_tokenizer(config.tokenizer, config.sft, 0, (), tool_tokens(setting, pools[setting]))
    for conversation in pools[setting]:
        learnt = encode(tokenizer, conversation)
        messages, position = [conversation[0]], 0
        for said, told in zip(conversation[1::2], [*conversation[2::2], None], strict=True):
            prompt = prompt_ids(tokenizer, messages)
            assert learnt.tokens[: len(prompt)] == prompt
            assert not any(learnt.mask[position : len(prompt)])
            ids = tuple(tokenizer(said["content"], add_special_tokens=False)["input_ids"])
            position = len(prompt) + len(ids) + 1
            assert learnt.tokens[len(prompt) : position] == (*ids, tokenizer.eos_token_id)
            assert all(learnt.mask[len(prompt) : position])
            assert len(ids) <= 75, said["content"]
            messages.append(Reply(said["content"], prompt, learnt.tokens[len(prompt) : position]).message())
            messages += [told] if told else []
        assert position == len(learnt.tokens) <= config.model.max_length


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_pool_that_was_interrupted_goes_on_to_the_same_file(
    setting: str, judge: Judge, tmp_path: Path
) -> None:
    class Stopped(Exception):  # noqa: N818 - it stands for a kill
        pass

    def stop(done: int, total: int, note: str) -> None:
        if done == 3:
            raise Stopped

    for name in ("whole", "again"):
        (tmp_path / name).mkdir()
    trajectory_pool(of(setting), tmp_path / "whole", judge, quiet)
    with pytest.raises(Stopped):
        trajectory_pool(of(setting), tmp_path / "again", judge, stop)
    kept = (tmp_path / "again" / "journal.jsonl").read_text()
    assert len(kept.splitlines()) >= 3
    with open(tmp_path / "again" / "journal.jsonl", "a") as journal:
        journal.write('{"problem_id": "torn')
    played: list[int] = []
    trajectory_pool(of(setting), tmp_path / "again", judge, lambda done, total, note: played.append(done))
    assert len(played) == 6 - len(kept.splitlines())
    assert [entry.name for entry in (tmp_path / "again").iterdir()] == ["trajectories.jsonl"]
    files = [(tmp_path / name / "trajectories.jsonl").read_bytes() for name in ("whole", "again")]
    assert files[0] == files[1]


def test_a_damaged_pool_is_named(tmp_path: Path, judge: Judge) -> None:
    (tmp_path / "trajectories.jsonl").write_text("garbage\n")
    with pytest.raises(UserError, match=r"trajectories\.jsonl, line 1"):
        train_sft(of("agentic"), tmp_path, quiet, judge)


@pytest.mark.parametrize("kind", ["efficient", "brute_force"])
def test_references_pass_the_samples_and_a_wrong_program_does_not(kind: str, judge: Judge) -> None:
    problem = problems_of(of("tool_use"), "hard", 1, 0)[0]
    env = ToolUseEnv(problems=[problem], judge=judge)
    program = next(s.program for s in problem.submissions if s.kind == kind)
    env.reset()
    for tried, expected in ((program, "2 of 2"), ("input()\nprint('no')", "0 of 2"), ("1/0", "ZeroDivision")):
        call = trial("tool_use", tried, samples_text(problem))
        assert isinstance(parse_tool_calls(call, env.tools)[0], ToolCall)
        assert expected in env.step(call)[0]
    env.close()


def test_only_tool_use_shows_the_samples_in_the_statement() -> None:
    plain = builtin.load("train", count=1, seed=0)[0]
    shown = problems_of(of("tool_use"), "train", 1, 0)[0]
    assert shown == replace(plain, statement=f"{plain.statement}Samples: {samples_text(plain)}\n")
    for setting in ("reasoning", "agentic"):
        assert problems_of(of(setting), "train", 1, 0)[0] == plain


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_warm_start_and_rl_resume_to_the_same_weights(
    setting: str, judge: Judge, tmp_path: Path, warm_starts: dict[str, Path]
) -> None:
    class Stopped(Exception):  # noqa: N818 - it stands for a kill
        pass

    def stop(done: int, total: int, note: str) -> None:
        if note.startswith(("loss", "reward")) and done == total - 1:
            raise Stopped

    config = of(setting)
    with pytest.raises(Stopped):
        train_sft(config, tmp_path / "sft", stop, judge)
    sft = train_sft(config, tmp_path / "sft", quiet, judge)
    warm = warm_starts[setting]
    assert (sft / "model.safetensors").read_bytes() == (warm / "model.safetensors").read_bytes()

    whole = train_rl(config, None, warm, tmp_path / "whole", judge, quiet)
    with pytest.raises(Stopped):
        train_rl(config, None, warm, tmp_path / "rl", judge, stop)
    train_rl(config, None, warm, tmp_path / "rl", judge, quiet)
    for name in ("model/model.safetensors", "log.jsonl"):
        assert (tmp_path / "rl" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    row = json.loads((tmp_path / "rl" / "log.jsonl").read_text().splitlines()[0])
    assert row["logprob_gap"] < 1e-3
    assert whole.is_dir()


def two_turns(model: Any, rewards: list[float]) -> list[Trajectory]:
    """Episodes of two messages with [8, 9] said in between."""
    made = []
    for index, reward in enumerate(rewards):
        first, second = (5, 6, 7), ()
        replies = []
        for prompt in (first, second):
            fed = prompt or (*replies[0].prompt_ids, *replies[0].token_ids, 8, 9)
            tokens, logprobs = sample(model, [fed], 10 * index + len(replies), 2, 4)
            replies.append(Reply("", tuple(fed), tuple(tokens[0]), tuple(logprobs[0])))
        made.append(Trajectory("p", (), reward, Outcome.CORRECT, replies=tuple(replies)))
    return made


def test_an_update_learns_from_the_tokens_of_all_turns_and_from_nothing_else(
    warm_starts: dict[str, Path],
) -> None:
    model = load_model(warm_starts["agentic"])[0]
    other = load_model(warm_starts["agentic"])[0]
    trajectories = two_turns(model, [1.0, 0.0])
    rl = of("agentic").rl
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    Learner(model, None, optimizer, rl, 0, 24, Hardware(torch.device("cpu"), False)).update(trajectories, 0)

    total, count = torch.zeros(()), 0
    for trajectory, advantage in zip(trajectories, (1.0, -1.0), strict=True):
        logprobs = answer_logprobs(other, torch.tensor([trajectory.tokens]))[0]
        for place, said in enumerate(trajectory.mask[1:]):
            if said:
                total, count = total - advantage * logprobs[place], count + 1
    assert count == sum(len(reply.token_ids) for t in trajectories for reply in t.replies)
    (total / count).backward()
    torch.nn.utils.clip_grad_norm_(other.parameters(), rl.clip_norm)
    torch.optim.SGD(other.parameters(), lr=0.1).step()
    for mine, expected in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.allclose(mine, expected, atol=1e-6)


@pytest.mark.parametrize("section", ["sft", "rl"])
def test_failures_are_shown_in_the_setting_of_one_turn_only(section: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"preset: own\nsetting: agentic\n{section}: {{repair_share: 0.5}}\n")
    with pytest.raises(UserError, match=rf"{section}.repair_share.*agentic shows no failures"):
        load_config(str(path))


def test_a_preset_holds_sizes_for_each_setting(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "preset: own\nsft: {steps: 7, batch_size: 5}\nsettings: {agentic: {sft: {steps: 9}, max_turns: 3}}\n"
    )
    plain, agentic = load_config(str(path)), load_config(str(path), setting="agentic")
    assert (plain.setting, plain.sft.steps, plain.sft.batch_size) == ("reasoning", 7, 5)
    assert (agentic.setting, agentic.sft.steps, agentic.sft.batch_size) == ("agentic", 9, 5)
    assert agentic.max_turns == 3
    with pytest.raises(UserError, match="key setting"):
        load_config("laptop", setting="tools")
    path.write_text("preset: own\nsettings: {tools: {}}\n")
    with pytest.raises(UserError, match="key settings: give sizes by setting: reasoning, tool_use, agentic"):
        load_config(str(path))


CONFIG = """
preset: tiny
setting: tool_use
max_new_tokens: 24
model: {hidden_size: 32, intermediate_size: 64, layers: 1, heads: 2, kv_heads: 2}
tokenizer: {problems: 100}
sft: {steps: 10, batch_size: 4, warmup_steps: 2, save_every: 5, episodes: 8}
rl: {steps: 2, problems_per_step: 1, group_size: 2, save_every: 1}
sweep: {alphas: [0, 0.5, 1], problems: {hard: 4}, samples: 2, chunk_problems: 2}
"""


def test_a_reproduction_with_tools_ends_with_the_same_summary_however_often_it_is_killed(
    tmp_path: Path,
) -> None:
    config = tmp_path / "tiny.yaml"
    config.write_text(CONFIG)

    def start(out: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "cef_env.cli", "reproduce", "--preset", str(config)]
        return subprocess.Popen(
            [*command, "--out", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    for name, signs in (("whole", ()), ("killed", ("sft/journal.jsonl", "sweep/samples.jsonl"))):
        for sign in signs:
            process = start(tmp_path / name)
            path, deadline = tmp_path / name / sign, time.monotonic() + 300
            while not (path.exists() and path.stat().st_size):
                assert process.poll() is None, process.stderr and process.stderr.read().decode()
                assert time.monotonic() < deadline
                time.sleep(0.005)
            process.kill()
            process.communicate()
        process = start(tmp_path / name)
        errors = process.communicate(timeout=600)[1].decode()
        assert process.returncode == 0, errors
    summaries = [(tmp_path / name / "report/summary.json").read_bytes() for name in ("whole", "killed")]
    assert summaries[0] == summaries[1]
    assert json.loads(summaries[0])["meta"]["setting"] == "tool_use"
