"""Source strings: what they load, and the one line that says what is wrong with one."""

import subprocess
import sys

import pytest

from cef_env.errors import UserError
from cef_env.problems import ProblemSet, builtin, jsonl, load


def test_builtin() -> None:
    assert len(load("builtin")) == 200
    assert load("builtin:hard?count=9&seed=1").ids == builtin.load("hard", 9, 1).ids
    assert load("builtin?count=6").ids == builtin.load(None, 6, 0).ids
    assert load("builtin:easy").ids[0].startswith("easy/")


def test_what_is_loaded_already() -> None:
    problems = load("builtin:train?count=2")
    assert load(problems) is problems
    again = load(list(problems))
    assert isinstance(again, ProblemSet)
    assert again.ids == problems.ids
    assert again.get(problems.ids[1]) == problems[1]


def test_jsonl(tmp_path) -> None:
    problems = load("builtin:train?count=2")
    jsonl.write(tmp_path / "p.jsonl", problems)
    assert list(load(f"jsonl:{tmp_path}/p.jsonl")) == list(problems)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nope", "unknown scheme 'nope'; use builtin, jsonl"),
        ("nope:x", "unknown scheme 'nope'"),
        ("builtin:medium", "unknown split 'medium'; choose one of train, easy, hard"),
        ("builtin:hard?size=3", "unknown option 'size'; use count, seed"),
        ("builtin?count=-1", "count='-1' must be a whole number"),
        ("builtin?count", "count='' must be a whole number"),
        ("builtin?count=3:4", "count='3:4' must be a whole number"),
        ("builtin?count=0", "count=0 must be from 1 to 1000000"),
        ("jsonl:", "give the file"),
        ([1, 2], "a list of Problem"),
        (None, "a source string or a list of Problem"),
    ],
)
def test_mistakes(source, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(source)
    assert "\n" not in str(caught.value)


def test_import_is_light() -> None:
    code = "import sys, cef_env.problems; print('cef_env.problems.builtin' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[0] == "False"
