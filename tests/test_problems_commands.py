"""`cef problems`: what each command prints, what it says of records that are left out, and its mistakes."""

import json
import sys
from pathlib import Path

import pytest

from cef_env.cli import main
from cef_env.problems import load
from tests.problems import formats


@pytest.fixture
def cef(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Runs `cef problems` in a folder of its own; (status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cef", "problems", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out = capsys.readouterr()
        return int(end.value.code or 0), out.out, out.err

    return run


@pytest.fixture
def source(tmp_path: Path) -> str:
    records = [
        formats.lcb("a"),
        formats.lcb_functional("b"),
        formats.lcb("c", question_content="This is an interactive problem about numbers."),
    ]
    return f"lcb:{formats.write_lines(tmp_path / 'test.jsonl', records)}"


def test_list(cef, source: str) -> None:
    status, out, err = cef("list", source)
    assert (status, out.split()) == (0, ["a", "b"])
    assert err.strip() == "left out: 1 x interactive"
    _, out, _ = cef("list", source, "--json")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"id": "a", "levels": [1, 2], "tests": 3, "difficulty": "hard", "date": "2024-08-15"},
        {"id": "b", "levels": [1, 2], "tests": 2, "difficulty": "easy", "date": "2023-06-01"},
    ]
    _, out, _ = cef("list", source + "?difficulty=hard", "--long")
    assert "2024-08-15" in out
    assert "easy" not in out
    _, out, _ = cef("list", "builtin:hard?count=3", "--long")
    ids = "".join(line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│"))
    assert ids == "".join(cef("list", "builtin:hard?count=3")[1].split())  # folded, not cut


def test_show(cef, source: str) -> None:
    status, out, _ = cef("show", source, "b")
    assert status == 0
    parts = ("class Solution:", "time limit 6 s CPU", "checker json", "function total", "levels 1")
    for part in (formats.STATEMENT, *parts):
        assert part in out
    assert json.loads(cef("show", source, "b", "--json")[1])["function"] == "total"


def test_what_a_source_holds_does_not_steer_the_terminal(cef, tmp_path: Path) -> None:
    record = formats.lcb("a", question_content=f"\x1b[2J\x07 [red]{formats.STATEMENT}", difficulty="\x1b[31m")
    name = f"lcb:{formats.write_lines(tmp_path / 't.jsonl', [record])}"
    for command in (["show", name, "a"], ["list", name, "--long"], ["stats", name]):
        _, out, _ = cef(*command)
        assert "\x1b" not in out
        assert "\\x1b" in out


def test_stats(cef, source: str) -> None:
    stats = json.loads(cef("stats", source, "--json")[1])
    assert (stats["problems"], stats["tests"], stats["skipped"]) == (2, 5, {"interactive": 1})
    levels = [(x["k"], x["tests"], x["have_reward"], x["distinguish"]) for x in stats["levels"]]
    assert levels == [(1, 3, 2, 2), (2, 2, 2, 0)] + [(k, 0, 2, 0) for k in range(3, 8)]
    status, out, _ = cef("stats", source)
    assert status == 0
    assert "2 problems, 5 tests" in " ".join(out.split())  # wherever the line breaks
    assert "difficulty: hard 1, easy 1" in out


def test_stats_count_as_the_problems_themselves_do(cef) -> None:
    problems = load("builtin:train?count=20")
    stats = json.loads(cef("stats", "builtin:train?count=20", "--json")[1])
    assert stats["tests"] == sum(len(problem.tests) for problem in problems)
    for level in stats["levels"]:
        k = level["k"]
        subsets = [(problem.coverage(k), problem.coverage(k + 1)) for problem in problems]
        assert level["have_reward"] == sum(bool(small) for small, _ in subsets)
        assert level["distinguish"] == sum(bool(small) and small != large for small, large in subsets)
        below = sum(len(problem.coverage(k - 1)) for problem in problems) if k > 1 else 0
        assert level["tests"] == sum(len(small) for small, _ in subsets) - below


def test_check(cef, tmp_path: Path) -> None:
    files = {"submissions/accepted/wrong.py": formats.WRONG_PY}
    formats.legacy_package(tmp_path / "p", files)
    status, out, err = cef("check", "icpc:p")
    assert status == 0
    assert "left out: 1 x submissions in .java" in err
    for part in ("expected", "2 of 3", "disagreements", "accepted", "not as labelled: 1", "1 hold here"):
        assert part in out
    result = json.loads(cef("check", "icpc:p", "--json", "--cache", "judge.sqlite")[1])
    assert ["correct", "correctness_failure", 1] in result["confusion"]
    assert (tmp_path / "judge.sqlite").exists()


def test_check_of_a_source_without_programs(cef, source: str) -> None:
    assert "no problem of this source carries a labelled program" in cef("check", source)[1]


def test_export(cef, source: str, tmp_path: Path) -> None:
    formats.modern_package(tmp_path / "p", {"output_validator/validate.py": formats.VALIDATOR_PY})
    for name in (source, "icpc:p"):
        status, out, _ = cef("export", name, "--out", "out.jsonl")
        assert status == 0
        assert "out.jsonl" in out
        assert list(load("jsonl:out.jsonl")) == list(load(name))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["list", "lcb:nowhere"], "nowhere does not exist"),
        (["stats", "lcb:bad.jsonl"], "bad.jsonl:1: not JSON"),
        (["check", "lcb:bad.jsonl"], "--skip-bad goes on without such records"),
        (["export", "lcb:bad.jsonl", "--out", "out.jsonl"], "bad.jsonl:1"),
        (["export", "builtin?count=1", "--out", "."], "is a folder"),
        (["export", "builtin?count=1", "--out", "no/out.jsonl"], "create it first"),
        (["show", "builtin?count=1", "x\x1b[2J"], "has no problem"),
    ],
)
def test_mistakes_are_one_line_with_status_2(cef, tmp_path: Path, arguments: list[str], named: str) -> None:
    (tmp_path / "bad.jsonl").write_text("{\n")
    status, _, err = cef(*arguments)
    assert status == 2
    assert named in err
    assert len(err.strip().splitlines()) == 1
    assert "\x1b" not in err
    assert not (tmp_path / "out.jsonl").exists()


def test_names_of_files_do_not_steer_the_terminal(cef, tmp_path: Path) -> None:
    formats.legacy_package(tmp_path / "p", {"data/secret/x\x1b[2J.in": "1"})
    status, _, err = cef("list", "icpc:p")
    assert status == 2
    assert "\\x1b[2J.ans: is missing" in err
    assert "\x1b" not in err


def test_skip_bad_goes_on_and_counts(cef, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text(f"{{\n{json.dumps(formats.lcb('a'))}\n")
    status, out, err = cef("list", "lcb:bad.jsonl", "--skip-bad")
    assert (status, out.split(), err.strip()) == (0, ["a"], "left out: 1 x broken")
