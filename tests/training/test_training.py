"""The tiny model, the warm start and the RL loop, with real files, the real judge and real kills."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from cef_env.agents.transformers_agent import TransformersAgent, load_model, sample
from cef_env.envs import CutText
from cef_env.envs.text import fenced
from cef_env.errors import UserError
from cef_env.judge import Judge, Outcome
from cef_env.problems import builtin
from cef_env.training.config import TokenizerConfig
from cef_env.training.data import Shown, answer_logprobs, pad_batch, prompt_text, supervised_batch
from cef_env.training.grpo import train_rl
from cef_env.training.model import build_model, save_checkpoint, train_tokenizer
from cef_env.training.sft import train_sft
from tests.training.tiny import quiet, tiny


def test_auto_classes_load_the_checkpoint_and_tokenize_it_as_it_was_trained(warm_start: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(warm_start)
    tokenizer = AutoTokenizer.from_pretrained(warm_start)
    ours = train_tokenizer(tiny().tokenizer, tiny().sft, tiny().seed)
    assert model.config.model_type == "qwen2"
    assert model.config.vocab_size == len(tokenizer)
    rng = random.Random(3)
    for _ in range(20):
        text = prompt_text(builtin.draw("train", rng))
        assert tokenizer(text)["input_ids"] == ours(text)["input_ids"]


def test_lines_are_tokens_and_any_text_survives_the_tokenizer() -> None:
    tokenizer = train_tokenizer(TokenizerConfig(problems=1000), tiny().sft, seed=0)
    rng = random.Random(4)
    lengths = []
    for _ in range(50):
        program = fenced(builtin.draw("train", rng).efficient)
        ids = tokenizer(program)["input_ids"]
        lengths.append(len(ids) / len(program.splitlines()))
        assert tokenizer.decode(ids) == program
    assert sum(lengths) / len(lengths) < 1.5  # about one token a line
    strange = "def é():\n\treturn '漢🙂' # ~\r\n"
    assert tokenizer.decode(tokenizer(strange)["input_ids"]) == strange


def test_the_loss_mask_covers_the_answer_and_its_end_token_only() -> None:
    config = tiny()
    tokenizer = train_tokenizer(config.tokenizer, config.sft, 0)
    ids, mask = supervised_batch(tokenizer, config.sft, 3, random.Random(0))
    for row, row_mask in zip(ids, mask, strict=True):
        answer = tokenizer.decode(row[row_mask.bool()])
        assert answer.startswith("```python\n")
        assert answer.endswith("```" + tokenizer.eos_token)
        assert tokenizer.decode(row[: int(row_mask.argmax())]).endswith("<|im_start|>assistant\n")


def test_sampled_log_probs_are_those_of_a_full_forward_pass(warm_start: Path) -> None:
    model, tokenizer = load_model(warm_start)
    prompts = [[5, 6, 7], [8, 9], [5, 6, 7], [4] * 9]  # one repeated, lengths mixed: padding and cache reuse
    tokens, logprobs = sample(model, prompts, 1, tokenizer.eos_token_id, 20, temperature=0.7)
    for prompt, answer, sampled in zip(prompts, tokens, logprobs, strict=True):
        ids, mask = pad_batch([prompt], [answer], 0)
        full = answer_logprobs(model, ids, temperature=0.7)[mask[:, 1:].bool()]
        assert torch.allclose(full, torch.tensor(sampled), atol=1e-4)


def test_sampling_follows_the_distribution(warm_start: Path) -> None:
    model, tokenizer = load_model(warm_start)
    tokens, _ = sample(model, [[5, 6, 7]] * 4000, 2, tokenizer.eos_token_id, 1)
    with torch.no_grad():
        expected = model(torch.tensor([[5, 6, 7]])).logits[0, -1].softmax(-1)
    counts = torch.bincount(torch.tensor([t[0] for t in tokens]), minlength=len(expected))
    top = expected.argsort(descending=True)[:5]
    error = (expected[top] * (1 - expected[top]) / 4000).sqrt()
    assert ((counts[top] / 4000 - expected[top]).abs() < 5 * error).all()


def test_the_same_seed_gives_the_same_answers_and_budget_cuts_are_marked(warm_start: Path) -> None:
    agent = TransformersAgent(*load_model(warm_start), max_new_tokens=3)
    conversation: list[Any] = [[{"role": "user", "content": "Given an array a.\n"}]] * 4
    first, second = agent.act_batch(conversation, seed=5), agent.act_batch(conversation, seed=5)
    assert [reply.token_ids for reply in first] == [reply.token_ids for reply in second]
    cut = [reply for reply in first if reply.token_ids[-1] != agent.tokenizer.eos_token_id]
    assert cut
    assert all(isinstance(reply.text, CutText) for reply in cut)


EVERYTHING = {
    "lora": {"rank": 2},
    "epochs": 2,
    "minibatches": 2,
    "micro_batch_size": 2,
    "max_redraws": 1,
    "kl_coef": 0.1,
    "advantage": "rloo",
}
SCRIPT = """
import json, sys, time, torch
from pathlib import Path
from tests.training.tiny import tiny
from cef_env.judge import Judge
from cef_env.training.grpo import train_rl
from cef_env.training.sft import train_sft
torch.set_num_threads(1)
slow = lambda done, total, note: (print(done, flush=True), time.sleep(0.2))
out = Path(sys.argv[1])
if sys.argv[2] == "sft":
    train_sft(tiny(), out, slow)
else:
    with Judge() as judge:
        train_rl(tiny(rl=json.loads(sys.argv[4])), 2, Path(sys.argv[3]), out, judge, slow)
"""


@pytest.mark.parametrize(("kind", "rl"), [("sft", {}), ("rl", {}), ("rl", EVERYTHING)])
def test_killed_training_ends_with_the_same_weights_and_log(
    kind: str, rl: dict[str, Any], tmp_path: Path, warm_start: Path, judge: Judge
) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    script = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n{SCRIPT}"
    command = [sys.executable, "-c", script, str(killed), kind, str(warm_start), json.dumps(rl)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    assert (killed / "state.pt").exists()
    torch.manual_seed(random.randrange(1000))  # whatever else this process has drawn must not matter
    for out in (killed, whole):
        if kind == "sft":
            train_sft(tiny(), out, quiet)
        else:
            train_rl(tiny(rl=rl), 2, warm_start, out, judge, quiet)
    files = [(out / "model" / "model.safetensors").read_bytes() for out in (killed, whole)]
    assert files[0] == files[1]
    logs = [(out / "log.jsonl").read_text() for out in (killed, whole)]
    assert logs[0] == logs[1]
    assert not (killed / "state.pt").exists()


def test_both_coverages_see_the_same_problems_and_log_every_outcome(
    warm_start: Path, judge: Judge, tmp_path: Path
) -> None:
    train_rl(tiny(), None, warm_start, tmp_path, judge, quiet)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1]
    for row in rows:
        assert sum(row[str(outcome)] for outcome in Outcome) == pytest.approx(1, abs=1e-5)
        assert row["logprob_gap"] < 1e-3


def test_a_saved_checkpoint_is_whole_or_absent(tmp_path: Path) -> None:
    config = tiny()
    tokenizer = train_tokenizer(config.tokenizer, config.sft, 0)
    model = build_model(config.model, tokenizer, 0)
    model.save_pretrained = lambda *args, **kwargs: (_ for _ in ()).throw(OSError(28, "No space left"))
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(tmp_path / "model", model, tokenizer)
    assert not (tmp_path / "model").exists()


class Stopped(Exception):  # noqa: N818 - it stands for a kill
    pass


def stop(done: int, total: int, note: str) -> None:
    if done == 2:
        raise Stopped


def test_a_warm_start_with_failures_reads_them_and_resumes_to_the_same_weights(
    tmp_path: Path, judge: Judge
) -> None:
    config = tiny(sft={"repair_share": 0.5, "repair_pool": 6, "save_every": 1})
    whole = train_sft(config, tmp_path / "whole", quiet, judge)
    shown = [json.loads(line) for line in (tmp_path / "whole" / "failures.jsonl").read_text().splitlines()]
    assert len(shown) == 6
    assert all("This program failed:" in row["prompt"] for row in shown)
    tokenizer = AutoTokenizer.from_pretrained(whole)
    lines = map(tokenizer.decode, tokenizer(shown[0]["prompt"])["input_ids"])
    assert "This program failed:\n" in lines

    again = tmp_path / "again"
    again.mkdir()
    (again / "failures.jsonl").write_bytes((tmp_path / "whole" / "failures.jsonl").read_bytes())
    with pytest.raises(Stopped):
        train_sft(config, again, stop, judge)
    resumed = train_sft(config, again, quiet, judge)
    assert (resumed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_examples_with_failures_are_the_share_that_is_asked_for() -> None:
    config = tiny(sft={"repair_share": 0.3})
    pool = [Shown(builtin.load("train", count=1).ids[0], "SHOWN")]
    tokenizer = train_tokenizer(config.tokenizer, config.sft, 0)
    ids, _ = supervised_batch(tokenizer, config.sft, 400, random.Random(0), pool)
    share = sum("SHOWN" in tokenizer.decode(row) for row in ids) / 400
    assert share == pytest.approx(0.3, abs=5 * (0.3 * 0.7 / 400) ** 0.5)


def test_accumulated_warm_start_gradients_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    found = []
    for size in (None, 3):
        path = train_sft(tiny(sft={"steps": 1, "micro_batch_size": size}), tmp_path / str(size), quiet)
        found.append(load_model(path)[0].state_dict())
    for name in found[0]:
        assert torch.allclose(found[0][name], found[1][name], atol=1e-5)


def test_tensorboard_shows_the_rows_once_after_a_resumed_run(
    warm_start: Path, judge: Judge, tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = tiny(rl={"steps": 4, "save_every": 1})
    with pytest.raises(Stopped):
        train_rl(config, 2, warm_start, tmp_path, judge, stop, tensorboard=True)
    train_rl(config, 2, warm_start, tmp_path, judge, quiet, tensorboard=True)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    shown = events.Scalars("rl/entropy")
    assert [event.step for event in shown] == [0, 1, 2, 3]
    assert [event.value for event in shown] == pytest.approx([row["entropy"] for row in rows], rel=1e-5)


def test_tensorboard_that_is_not_installed_is_named_before_training(
    warm_start: Path, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r"cef-env\[tensorboard\]"):
        train_rl(tiny(), 2, warm_start, tmp_path, judge, quiet, tensorboard=True)
    assert not (tmp_path / "model").exists()
