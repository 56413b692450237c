"""Online fixing through OpenRLHF's own loop: a group is shown one failure of its own, or its problem."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cef_env.envs.text import fenced
from cef_env.errors import JudgeError
from cef_env.judge import Judge
from cef_env.problems import jsonl
from cef_env.training.openrlhf.environments import Label
from cef_env.training.openrlhf.episode import LEAST_TURN, LOGS
from tests.conftest import double
from tests.openrlhf.stand_in import StandInEngine, sampling

pytest.importorskip("openrlhf.utils.agent", reason="needs OpenRLHF; run `make test-openrlhf`")

from tests.openrlhf.test_executor import RIGHT, SHORT, SLOW, Setup

SAMPLES = 4


@pytest.fixture
def one(tokenizer: Any, judge: Judge, tmp_path: Path) -> Any:
    jsonl.write(tmp_path / "problems.jsonl", [double("small", (1, 3, 30))])
    made = Setup(tokenizer, judge, f"jsonl:{tmp_path}/problems.jsonl", "reasoning")
    yield made
    made.environments.close()


class Group:
    """The samples of one prompt, as `RolloutRayActor.generate_responses` plays them."""

    def __init__(self, one: Setup, replies: list[str], coverage: int | None = None, **options: Any) -> None:
        self.engine = StandInEngine(one.tokenizer, replies, options.pop("delay", 0.0))
        self.one, self.label = one, Label(one.source, "small", coverage, fixing=True).text()
        self.max_length = options.pop("max_length", 8192)

    async def play(self, samples: int = SAMPLES) -> list[dict[str, Any]]:
        shared, one = sampling(), self.one
        tasks = [
            one.executor.execute(
                prompt=one.prompt,
                label=self.label,
                sampling_params=shared,
                max_length=self.max_length,
                hf_tokenizer=one.tokenizer,
                llm_engine=self.engine,
                images=None,
            )
            for _ in range(samples)
        ]
        return await asyncio.gather(*tasks)

    @property
    def prompts(self) -> list[str]:
        return [self.one.tokenizer.decode(ids) for ids in self.engine.prompts]


def test_all_samples_of_a_prompt_repair_the_one_answer_that_failed_before_them(one: Setup) -> None:
    group = Group(one, [SHORT, RIGHT, SLOW, RIGHT, "no"])
    answers = asyncio.run(group.play())
    first, *others = group.prompts
    assert first == one.prompt
    assert len(others) == SAMPLES
    assert len(set(others)) == 1
    assert "This program failed:\n\n" + SHORT in others[0]
    assert "Outcome: correctness_failure" in others[0]
    assert others[0].startswith("<|im_start|>user\n")
    assert others[0].endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert [answer["reward"] for answer in answers] == [1.0, 0.0, 1.0, 0.0]
    for answer in answers:
        assert tuple(answer["extra_logs"]) == LOGS
        assert answer["prompt"] == others[0]
        assert answer["label"] == group.label
    total = {name: sum(answer["extra_logs"][name] for answer in answers) for name in LOGS}
    assert (total["cef_repair_asked"], total["cef_repair_judged"], total["cef_repair_correct"]) == (4, 4, 2)
    assert total["cef_original_judged"] == 0


def test_no_token_of_the_first_answer_is_trained_on(one: Setup) -> None:
    answers = asyncio.run(Group(one, [SHORT, *[RIGHT] * SAMPLES]).play())
    for answer in answers:
        ((start, end),) = answer["action_ranges"]
        assert one.tokenizer.decode(answer["observation_tokens"][start:end]) == RIGHT + "<|im_end|>"
        assert one.tokenizer.decode(answer["observation_tokens"][:start]) == answer["prompt"]
        assert answer["rollout_log_probs"] == [0.0] * start + [-0.5] * (end - start)


@pytest.mark.parametrize(("draft", "coverage"), [(RIGHT, None), (SHORT, 1), ("I do not know.", None)])
def test_a_first_answer_that_leaves_nothing_to_repair_leaves_the_problem(
    one: Setup, draft: str, coverage: int | None
) -> None:
    group = Group(one, [draft, *[RIGHT] * SAMPLES], coverage)
    answers = asyncio.run(group.play())
    assert group.prompts == [one.prompt] * (1 + SAMPLES)
    for answer in answers:
        logs = answer["extra_logs"]
        assert (logs["cef_repair_asked"], logs["cef_judged"]) == (1.0, 1.0)
        assert logs["cef_repair_judged"] == logs["cef_original_judged"] == 0.0


def test_a_failure_without_room_for_an_answer_is_not_shown(one: Setup) -> None:
    long = fenced("# " + "filler " * 300 + "\nprint(input())")
    room = len(one.tokenizer(one.prompt + long, add_special_tokens=False)["input_ids"]) + LEAST_TURN
    group = Group(one, [long, *["no"] * SAMPLES], max_length=room)
    answers = asyncio.run(group.play())
    assert group.prompts == [one.prompt] * (1 + SAMPLES)
    assert not any(answer["extra_logs"]["cef_error"] for answer in answers)


def test_a_first_answer_that_could_not_be_judged_leaves_the_problem(
    one: Setup, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, run = iter(range(9)), judge.run

    def broken_once(*arguments: Any, **options: Any) -> Any:
        if next(calls) == 0:
            raise JudgeError("the box died")
        return run(*arguments, **options)

    monkeypatch.setattr(judge, "run", broken_once)
    group = Group(one, [SHORT, *[RIGHT] * SAMPLES])
    answers = asyncio.run(group.play())
    assert [answer["reward"] for answer in answers] == [1.0] * SAMPLES
    assert group.prompts[-1] == one.prompt


def test_groups_at_once_and_one_after_the_other_have_failures_of_their_own(one: Setup) -> None:
    wrong = [fenced(f"print({number})") for number in range(3)]
    groups = [Group(one, [answer, *[RIGHT] * SAMPLES], delay=0.01) for answer in wrong]

    async def play() -> None:
        await asyncio.gather(groups[0].play(), groups[1].play())
        await groups[2].play()

    asyncio.run(play())
    for group, answer in zip(groups, wrong, strict=True):
        assert [answer in prompt for prompt in group.prompts] == [False, *[True] * SAMPLES]
    assert not one.executor._failures._groups


def test_an_engine_that_fails_in_the_first_answer_is_told_to_every_sample(one: Setup) -> None:
    group = Group(one, [])

    async def play() -> list[Any]:
        shared = sampling()
        execute = one.executor.execute
        tasks = [
            execute(one.prompt, group.label, shared, 8192, one.tokenizer, group.engine)
            for _ in range(SAMPLES)
        ]
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(error) for error in asyncio.run(play())] == [IndexError] * SAMPLES
    assert not one.executor._failures._groups


def test_special_tokens_in_a_failed_program_stay_text(one: Setup) -> None:
    forged = fenced("print('<|im_end|>')")
    group = Group(one, [forged, *[RIGHT] * SAMPLES])
    asyncio.run(group.play())
    assert "print('< |im_end|>')" in group.prompts[1]
    assert group.engine.prompts[1].count(one.tokenizer.eos_token_id) == 1
