"""The data of a launch: what its environments show, and nothing of hidden tests."""

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cef_env.envs.text import extract_program
from cef_env.errors import UserError
from cef_env.judge import Judge
from cef_env.problems import Problem, TestCase, jsonl, load
from cef_env.problems.types import Submission
from cef_env.training.openrlhf.config import LaunchConfig
from cef_env.training.openrlhf.environments import Label, make_environment
from cef_env.training.openrlhf.prompts import export, require_problems
from tests.training.openrlhf.test_config import WHOLE

RIGHT, WRONG = "print(2 * int(input()))", "print(int(input()))"
HIDDEN = "918273645546372819"


def problem(id_: str, *inputs: str) -> Problem:
    """Doubling; the first test is shown, and submissions of both kinds are known."""
    tests = [TestCase(one, f"{2 * int(one)}\n", sample=position == 0) for position, one in enumerate(inputs)]
    submissions = (
        Submission("wrong", WRONG, ("correctness_failure",)),
        Submission("right", "int main", ("correct",), "cpp17"),
        Submission("right", RIGHT, ("correct",)),
    )
    return Problem(id_, "Double", "Print the double, as in <image>.", tuple(tests), submissions=submissions)


def config(folder: Path, setting: str, *problems: Problem, **change: Any) -> LaunchConfig:
    path = folder / "problems.jsonl"
    jsonl.write(path, problems or (problem("small", "4", HIDDEN), problem("large", "4" * 20, HIDDEN * 7)))
    data = {
        **WHOLE,
        "problems": {"train": f"jsonl:{path}", "eval": f"jsonl:{path}", "eval_count": 1},
        "environment": {"setting": setting},
        **change,
    }
    return LaunchConfig.model_validate(data)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def ignore(*_: object) -> None: ...


@pytest.mark.parametrize("setting", ["reasoning", "tool_use", "agentic"])
def test_each_file_has_the_problems_of_its_coverage_and_labels_that_name_them(
    tmp_path: Path, setting: str, judge: Judge
) -> None:
    one = config(tmp_path, setting, coverages={"low": 1, "high": "inf"})
    written = {file.path.stem: file for file in export(one, tmp_path, ignore)}
    assert {name: (file.rows, file.dropped) for name, file in written.items()} == {
        "low": (1, 1),
        "high": (2, 0),
        "eval": (1, 0),
    }
    for name, coverage, split in (("low", 1, "train"), ("high", None, "train"), ("eval", None, "eval")):
        for row in rows(written[name].path):
            assert set(row) == {"prompt", "label", "datasource"}
            label = Label.parse(row["label"])
            assert (label.coverage, label.split, label.source) == (coverage, split, one.problems.train)
            env = make_environment(one.agent, load(label.source), label.coverage, label.split, judge)
            shown = env.reset(options=label.options)[0]
            env.close()
            assert row["prompt"] == shown.replace("<image>", "[image]")


@pytest.mark.parametrize("setting", ["reasoning", "tool_use", "agentic", "repair"])
def test_hidden_tests_are_in_no_file(tmp_path: Path, setting: str, judge: Judge) -> None:
    change = {"sft": {}} if setting in ("reasoning", "tool_use") else {}
    # The failed program fails a hidden test, so that its result knows of one.
    wrong = Submission(
        "wrong", "n = input()\nprint(2 * int(n) if len(n) < 9 else 0)", ("correctness_failure",)
    )
    one = dataclasses.replace(
        problem("small", "4", HIDDEN), submissions=(wrong, *problem("x", "4").submissions)
    )
    for file in export(config(tmp_path, setting, one, **change), tmp_path, ignore, judge):
        text = file.path.read_text()
        assert file.rows == 1
        assert HIDDEN not in text
        assert str(2 * int(HIDDEN)) not in text


def test_a_repair_label_makes_the_same_failure_without_judging_again(tmp_path: Path, judge: Judge) -> None:
    one = config(tmp_path, "repair", problem("small", "4", HIDDEN))
    export(one, tmp_path, ignore, judge)
    (row,) = rows(tmp_path / "data" / "high.jsonl")
    label = Label.parse(row["label"])
    assert label.program == WRONG

    class NoJudge:
        tier, speed_factor = "none", 1.0

        def run(self, *_: object, **__: object) -> None:
            raise AssertionError("judged again")

    env = make_environment(one.agent, load(label.source), None, "train", NoJudge())  # type: ignore[arg-type]
    assert env.reset(options=label.options)[0].replace("<image>", "[image]") == row["prompt"]
    env.close()


def test_repairs_are_a_share_of_the_rows_beside_a_row_of_every_problem(tmp_path: Path) -> None:
    problems = [problem(f"p{number}", "4") for number in range(8)]
    for share, repairs in ((0.0, 0), (0.2, 2), (0.5, 8), (0.75, 24)):
        one = config(tmp_path, "reasoning", *problems, rl={"repair_share": share})
        written = {file.path.stem: file for file in export(one, tmp_path, ignore)}
        assert (written["high"].rows, written["high"].repairs) == (8 + repairs, repairs)
        assert (written["eval"].rows, written["eval"].repairs) == (1, 0)
        labels = [Label.parse(row["label"]) for row in rows(tmp_path / "data" / "high.jsonl")]
        alone = [label.problem_id for label in labels if not label.fixing]
        again = Counter(label.problem_id for label in labels if label.fixing)
        assert alone == [one.id for one in problems]
        assert max(again.values(), default=0) - min(again[id_] for id_ in alone) <= 1
        before = (tmp_path / "data" / "high.jsonl").read_bytes()
        export(one, tmp_path, ignore)
        assert (tmp_path / "data" / "high.jsonl").read_bytes() == before
    one = config(tmp_path, "reasoning", *problems, rl={"repair_share": 0.01})
    with pytest.raises(UserError, match=r"rl\.repair_share: 0\.01 of 8"):
        export(one, tmp_path, ignore)


def test_the_warm_start_ends_with_a_program_that_is_labelled_correct(tmp_path: Path) -> None:
    export(config(tmp_path, "reasoning", sft={}), tmp_path, ignore)
    for row in rows(tmp_path / "data" / "sft.jsonl"):
        assert [message["role"] for message in row["messages"]] == ["user", "assistant"]
        assert (extract_program(row["messages"][-1]["content"]) or "").strip() == RIGHT


def test_a_coverage_without_problems_is_refused(tmp_path: Path) -> None:
    one = config(tmp_path, "reasoning", problem("large", "4" * 20), coverages={"low": 1, "high": "inf"})
    with pytest.raises(UserError, match=r"coverages\.low: no problem"):
        require_problems(one)
    with pytest.raises(UserError, match=r"coverages\.low"):
        export(one, tmp_path, ignore)
    assert not (tmp_path / "data").exists()


def test_what_would_show_hidden_tests_is_refused(tmp_path: Path) -> None:
    one = config(tmp_path, "repair", environment={"setting": "repair", "arguments": {"reveal": "all"}})
    with pytest.raises(UserError, match="hidden tests"):
        export(one, tmp_path, ignore)


def test_labels_come_back_as_they_were() -> None:
    for label in (
        Label("jsonl:x", "é \U0001f600", None),
        Label("jsonl:x", "p", 3, "eval"),
        Label("jsonl:x", "p", 1, program="print()", result={"a": [1]}),
        Label("jsonl:x", "p", 1, fixing=True),
    ):
        assert Label.parse(label.text()) == label


@pytest.mark.parametrize(
    "text", ["", "42", "{}", '{"source": 1}', '{"source": "a", "problem_id": "b", "coverage": 0}']
)
def test_a_foreign_label_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="label"):
        Label.parse(text)
