"""TRL's own GRPOTrainer on our environments: real template, tool loop, judge and optimiser step.

A tiny model's messages are scripted (an untrained model calls no tool); all else is TRL's.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the package trl is not here; `make test-doors` installs it")

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from cef_env.envs.agentic import AgenticEnv
from cef_env.envs.text import fenced
from cef_env.envs.tool_use import ToolUseEnv
from cef_env.envs.tools import call_text
from cef_env.problems import ProblemSet
from cef_env.sandbox import BoxError
from cef_env.training.config import ModelConfig, SFTConfig, TokenizerConfig
from cef_env.training.doors.trl import Agentic, ToolUse, answer_reward, rows
from cef_env.training.model import build_model, train_tokenizer
from tests.conftest import double

PROBLEMS = ProblemSet.of([double("small"), double("large", (20, 200))])
RIGHT, WRONG = fenced("print(2 * int(input()))"), fenced("print(input())")
CALL = call_text("python", "code", "print(6 * 7)")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    import trl

    made = train_tokenizer(TokenizerConfig(vocab_size=300, lines=0, problems=20), SFTConfig(), seed=0)
    made.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text()
    return made


Scripts = list[list[str]]


def trained(tokenizer: Any, folder: Path, factory: Callable[[], Any], scripts: Scripts, **funcs: Any) -> Any:
    """One optimiser step on a group in which rollout i says scripts[i]; the trainer, with what it saw."""
    config = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=len(scripts),
        num_generations=len(scripts),
        max_completion_length=2048,
        max_steps=1,
        learning_rate=1e-3,
        report_to=[],
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
    )
    size = ModelConfig(hidden_size=64, intermediate_size=64, layers=1, heads=1, kv_heads=1, max_length=8192)
    trainer = GRPOTrainer(
        model=build_model(size, tokenizer, seed=0),
        args=config,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(rows(PROBLEMS, 1)),
        environment_factory=factory,
        **funcs,
    )
    left = [list(script) for script in scripts]
    seen: list[str] = []

    def say(prompt_ids: list[list[int]], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        seen.extend(tokenizer.decode(ids) for ids in prompt_ids)
        talking = [script for script in left if script]
        texts = [script.pop(0) for script in talking]
        return [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in texts], None

    trainer._generate_single_turn = say
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    trainer.seen = seen
    trainer.moved = any(not value.equal(before[name]) for name, value in trainer.model.named_parameters())
    return trainer


def logged(trainer: Any, name: str) -> float:
    return float(next(row[name] for row in trainer.state.log_history if name in row))


def test_tool_use_trains_on_the_reward_of_the_last_message(tokenizer: Any, tmp_path: Path) -> None:
    factory = partial(ToolUse, problems=PROBLEMS, coverage=1, max_turns=4)
    scripts = [[CALL, RIGHT], [CALL, WRONG]]
    trainer = trained(tokenizer, tmp_path, factory, scripts, reward_funcs=answer_reward)
    assert logged(trainer, "reward") == 0.5
    assert trainer.moved
    first, after = trainer.seen[0], trainer.seen[-1]
    assert "print its double" in first
    assert first.count('"name": "python"') == 1  # the tool is told once, by TRL's prompt
    assert "<tool_response>\n42\nMessages left: 3" in after


def test_agentic_trains_on_what_was_handed_in(tokenizer: Any, tmp_path: Path) -> None:
    write = call_text("bash", "command", "echo 'print(2 * int(input()))' > a.py")
    submit = call_text("submit", "path", "a.py")
    factory = partial(Agentic, problems=PROBLEMS, coverage=1)
    trainer = trained(tokenizer, tmp_path, factory, [[write, submit, "Done."], ["I give up."]])
    assert logged(trainer, "reward") == 0.5
    assert trainer.moved


def test_a_fault_of_the_instrument_is_left_out_of_the_group(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = ToolUseEnv._judged

    def broken(env: ToolUseEnv, program: str, *rest: Any) -> Any:
        if "fault" in program:
            raise BoxError("the sandbox is gone")
        return judged(env, program, *rest)

    monkeypatch.setattr(ToolUseEnv, "_judged", broken)
    factory = partial(ToolUse, problems=PROBLEMS, coverage=1)
    scripts = [[RIGHT], [WRONG], [fenced("fault")], [RIGHT]]
    trainer = trained(tokenizer, tmp_path, factory, scripts, reward_funcs=answer_reward)
    assert logged(trainer, "reward") == pytest.approx(2 / 3)


def test_a_fault_in_a_tool_has_no_reward_and_the_next_episode_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = Agentic(PROBLEMS, 1)
    environment.reset("small")
    with monkeypatch.context() as patch:
        patch.setattr(AgenticEnv, "_open", lambda _: (_ for _ in ()).throw(BoxError("gone")))
        with pytest.raises(BoxError):
            environment.bash("ls")
    assert environment.get_reward() is None
    environment.reset("small")
    assert "statement.md" in environment.bash("ls")
    assert environment.get_reward() == 0.0
    assert environment._env.unwrapped._terminal is None  # type: ignore[attr-defined]


def test_a_call_after_the_end_changes_nothing() -> None:
    environment = ToolUse(PROBLEMS, 1, max_turns=1)
    environment.reset("small")
    assert "format" in environment.python("print(1)")
    assert environment.python("print(1)") == "The episode is over."
    assert answer_reward([[{"role": "assistant", "content": RIGHT}]], [environment]) == [0.0]


def test_a_row_names_a_problem_that_has_a_reward_and_shows_no_test() -> None:
    assert [row["problem_id"] for row in rows(PROBLEMS, 1)] == ["small"]
    assert "777" not in str(rows(PROBLEMS))
