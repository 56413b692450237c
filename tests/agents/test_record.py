"""Recorded rollouts: what a kill leaves, what a second run plays, and what is refused."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.agents import BatchAgent, Message, Reply, Trajectory
from cef_env.agents.environments import registered
from cef_env.agents.episode import Limits
from cef_env.agents.journal import Journal
from cef_env.agents.record import Settings, record
from cef_env.agents.trajectories import read_row, read_rows, row_of, trajectory_of
from cef_env.envs.text import CutText, fenced
from cef_env.errors import InstrumentError, UserError
from cef_env.files import exclusive
from cef_env.judge import Outcome

ROOT = Path(__file__).parents[2]
SOURCE = "builtin:easy?count=3"
EFFICIENT = Settings("cef/Reasoning-v0", "scripted:efficient", SOURCE, coverage="2", samples=2)


class Numbered(BatchAgent):
    """Answers with its seed and its place in the batch, so that company shows."""

    def __init__(self) -> None:
        self.played = 0

    def act(self, messages: list[Message]) -> str:
        raise NotImplementedError

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        self.played += len(conversations)
        return [Reply(fenced(f"# {seed} {i}"), (1, 2), (3,), (-0.5,)) for i in range(len(conversations))]


class Failing:
    """Its server is down for the first calls."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def act(self, messages: list[Message]) -> str:
        self.failures -= 1
        if self.failures >= 0:
            raise InstrumentError("connection refused")
        return fenced("pass")


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes `own:agent` the string of an agent."""

    def named(value: object) -> str:
        module = type(sys)("own")
        module.agent = lambda: value  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "own", module)
        return "own:agent"

    return named


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trajectories.jsonl").read_text().splitlines()]


def ended(said: str, problem_id: str = "p") -> Trajectory:
    messages: tuple[Message, ...] = ({"role": "assistant", "content": said},)
    return Trajectory(problem_id, messages, 1.0, Outcome.CORRECT)


def cut(path: Path, bytes_: int) -> None:
    path.write_bytes(path.read_bytes()[:bytes_])


def test_trajectories_are_in_the_order_of_the_source(tmp_path: Path) -> None:
    summary = record(EFFICIENT, Limits(), tmp_path)
    assert summary.outcomes == {"correct": 6}
    assert (summary.reward, summary.turns, summary.faults) == (1, 1, 0)
    rows = lines(tmp_path)
    assert [row["sample"] for row in rows] == [0, 1] * 3
    assert [row["problem_id"] for row in rows[::2]] == [row["problem_id"] for row in rows[1::2]]
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "rollout.json", "trajectories.jsonl"]


def test_a_finished_folder_is_not_played_again(tmp_path: Path, agent: Any) -> None:
    player = Numbered()
    settings = Settings("cef/Reasoning-v0", agent(player), SOURCE)
    first = record(settings, Limits(), tmp_path)
    before = (tmp_path / "trajectories.jsonl").read_bytes()
    assert record(settings, Limits(), tmp_path) == first
    assert player.played == 3
    assert (tmp_path / "trajectories.jsonl").read_bytes() == before


SLOW = """
import os, time
from cef_env.envs.text import fenced
class Slow:
    def act(self, messages):
        with open("calls", "a") as log: log.write("x\\n")
        time.sleep(float(os.environ["PAUSE"]))
        return fenced("print(1)")
"""


def test_a_killed_rollout_goes_on_to_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "cef_env.cli", "rollout", "--agent", "slow:Slow", "--problems", SOURCE]
    command += ["--samples", "3", "--concurrency", "2", "--out"]

    def start(out: str, pause: str) -> subprocess.Popen[bytes]:
        env = os.environ | {"PYTHONPATH": str(ROOT), "PAUSE": pause}
        return subprocess.Popen([*command, out], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL)

    assert start("whole", "0").wait(60) == 0
    (tmp_path / "calls").unlink()
    killed, journal = start("killed", "0.3"), tmp_path / "killed" / "journal.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.read_bytes().count(b"\n") >= 3):
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait(10)
    finished = journal.read_bytes().count(b"\n")
    assert 3 <= finished < 9
    with open(journal, "ab") as torn:
        torn.write(b'{"problem_id": "half')
    calls = (tmp_path / "calls").read_text().count("x")
    assert start("killed", "0").wait(60) == 0
    assert (tmp_path / "calls").read_text().count("x") - calls == 9 - finished
    whole, resumed = (tmp_path / name / "trajectories.jsonl" for name in ("whole", "killed"))
    assert whole.read_bytes() == resumed.read_bytes()


@pytest.mark.parametrize("lost", [1, 300, 1500])
def test_a_wave_that_was_cut_is_played_again_as_a_whole(tmp_path: Path, agent: Any, lost: int) -> None:
    """Replies of a batch may depend on each other, so the rest of a wave alone could come out otherwise."""
    settings = Settings("cef/Reasoning-v0", agent(Numbered()), SOURCE, samples=3)
    record(settings, Limits(concurrency=2), tmp_path / "whole")
    folder = tmp_path / "cut"

    class Killed(Exception):  # noqa: N818
        pass

    def kill(done: int, total: int, note: str) -> None:
        if done == 6:
            raise Killed

    with pytest.raises(Killed):
        record(settings, Limits(concurrency=2), folder, kill)
    journal = folder / "journal.jsonl"
    cut(journal, journal.stat().st_size - lost)
    record(settings, Limits(concurrency=2), folder)
    whole, resumed = (path / "trajectories.jsonl" for path in (tmp_path / "whole", folder))
    assert whole.read_bytes() == resumed.read_bytes()
    with pytest.raises(UserError, match="concurrency=2, not 3"):
        record(settings, Limits(concurrency=3), folder)


@pytest.mark.parametrize("waves", [False, True])
def test_a_journal_has_what_was_whole_at_any_cut(tmp_path: Path, waves: bool) -> None:
    path = tmp_path / "journal.jsonl"
    rows = [row_of(ended("é" * n), n) for n in range(4)]
    ends = []
    with Journal(path, waves) as journal:
        for pair in (rows[:2], rows[2:]):
            journal.append(pair)
            ends.append(path.stat().st_size)
    data = path.read_bytes()
    for size in {*range(0, len(data), 17), *ends, *(end - 1 for end in ends)}:
        path.write_bytes(data[:size])
        with Journal(path, waves) as journal:
            kept = len(journal.done)
            journal.append([row_of(ended("", "q"))])
            journal.export(tmp_path / "out", [("q", 0), ("p", 1), ("p", 0)])
        whole = 2 * sum(size >= end for end in ends) if waves else data[:size].count(b"\n")
        assert kept == whole
        assert [row.get("sample") for row in map(json.loads, (tmp_path / "out").open())] == [0, 1, 0][
            : 1 + min(whole, 2)
        ] or whole == 1


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    whole = json.dumps(row_of(ended("x"))) + "\n"
    for damage in ("nonsense", "[" * 100_000, "5", "{}", '{"problem_id": "p", "sample": 0}', '{"reason": 1}'):
        (tmp_path / "journal.jsonl").write_text(f"{whole}{damage}\n")
        with pytest.raises(UserError, match=f"damaged at byte {len(whole)}"):
            Journal(tmp_path / "journal.jsonl", False)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_finished_folder_that_lost_trajectories_is_named(tmp_path: Path, lost: int) -> None:
    record(EFFICIENT, Limits(), tmp_path)
    path = tmp_path / "trajectories.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-lost]) + lines[-lost][:50])
    with pytest.raises(UserError, match=f"holds {len(lines) - lost} of {len(lines)} episodes; delete it"):
        record(EFFICIENT, Limits(), tmp_path)
    path.unlink()
    record(EFFICIENT, Limits(), tmp_path)
    assert path.read_bytes() == b"".join(lines)


def test_settings_that_are_none_are_named(tmp_path: Path) -> None:
    (tmp_path / "rollout.json").write_text("[]")
    with pytest.raises(UserError, match=r"rollout\.json does not say what was played; delete the folder"):
        record(EFFICIENT, Limits(), tmp_path)


def test_a_full_disk_loses_no_episode_and_keeps_no_rest(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl", False) as journal:
        journal.append([row_of(ended("x" * 9000))])

        class Full:
            def __getitem__(self, key: object) -> object:
                raise OSError(errno.ENOSPC, "No space left on device")

            def __contains__(self, key: object) -> bool:
                return True

        done, journal.done = journal.done, Full()  # type: ignore[assignment]
        with pytest.raises(OSError, match="No space"):
            journal.export(tmp_path / "out", [("p", 0)])
        assert [path.name for path in tmp_path.iterdir()] == ["journal.jsonl"]
        journal.done = done
        journal.export(tmp_path / "out", [("p", 0)])
        assert len(list(read_rows(tmp_path / "out"))) == 1


def test_faults_are_told_apart_and_tried_again_by_the_next_run(tmp_path: Path, agent: Any) -> None:
    settings = Settings("cef/Reasoning-v0", agent(Failing(2)), SOURCE)
    summary = record(settings, Limits(concurrency=1, retries=0), tmp_path)
    assert (summary.faults, sum(summary.outcomes.values())) == (2, 1)
    faults = [json.loads(line) for line in (tmp_path / "faults.jsonl").read_text().splitlines()]
    assert [fault["reason"] for fault in faults] == ["connection refused"] * 2
    assert len(lines(tmp_path)) == 1
    summary = record(settings, Limits(concurrency=1, retries=0), tmp_path)
    assert (summary.faults, sum(summary.outcomes.values())) == (0, 3)
    assert not (tmp_path / "faults.jsonl").exists()
    assert [row["problem_id"] for row in lines(tmp_path)] == sorted(
        (row["problem_id"] for row in lines(tmp_path)), key=[r["problem_id"] for r in lines(tmp_path)].index
    )
    again = tmp_path / "again"
    record(Settings("cef/Reasoning-v0", agent(Failing(0)), SOURCE), Limits(), again)
    assert (again / "trajectories.jsonl").read_bytes() == (tmp_path / "trajectories.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seed": 1}, "seed=0, not 1"),
        ({"samples": 3}, "samples=2, not 3"),
        ({"coverage": "3"}, 'coverage="2", not "3"'),
        ({"agent": "scripted:brute_force"}, "agent="),
        ({"env": "cef/ToolUse-v0"}, "env="),
        ({"env_options": {"prompt": "livecodebench"}}, "env_options="),
        ({"problems": "builtin:easy?count=4"}, "problems="),
        ({"limit": 2}, "limit=null, not 2"),
    ],
)
def test_a_folder_goes_on_only_with_the_same_settings(
    tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    from dataclasses import replace

    record(EFFICIENT, Limits(), tmp_path)
    with pytest.raises(UserError, match=named):
        record(replace(EFFICIENT, **changed), Limits(), tmp_path)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with exclusive(tmp_path / ".lock", "it"), pytest.raises(UserError, match="in use by another process"):
        record(EFFICIENT, Limits(), tmp_path)


def test_trajectories_of_something_else_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "trajectories.jsonl").write_text("precious")
    with pytest.raises(UserError, match="something else"):
        record(EFFICIENT, Limits(), tmp_path)
    assert (tmp_path / "trajectories.jsonl").read_text() == "precious"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"env": "cef/Reasonin-v0"}, ", ".join(registered())),
        ({"env": "CartPole-v1"}, "not one of ours"),
        ({"env": "nowhere:x"}, "unknown"),
        (
            {"env_options": {"max_turns": 3}},
            "'max_turns' is unknown to cef/Reasoning-v0; use prompt, exhaustive",
        ),
        ({"env_options": {"problems": "builtin"}}, "'problems' is unknown"),
        ({"env": "cef/ToolUse-v0", "env_options": {"max_turns": "x"}}, "max_turns='x'"),
        (
            {"env": "cef/ToolUse-v0", "env_options": {"tool_state": [1]}},
            "tool_state=[1]: use call or episode",
        ),
        ({"samples": 0}, "samples=0"),
        ({"limit": 0}, "limit=0"),
        ({"seed": -1}, "seed=-1: use 0 or more"),
        ({"agent_options": {"temperature": 1.0}}, "leave out temperature"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_folder(
    tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    from dataclasses import replace

    with pytest.raises(UserError) as caught:
        record(replace(EFFICIENT, **changed), Limits(), tmp_path / "out")
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


texts = st.text(st.characters(codec="utf-8"), max_size=30)


@given(texts, st.booleans(), st.lists(st.integers(0, 9), max_size=3), st.floats(-5, 5))
def test_a_trajectory_is_the_same_after_a_file(
    text: str, is_cut: bool, tokens: list[int], reward: float
) -> None:
    reply = Reply(CutText(text) if is_cut else text, tuple(tokens), tuple(tokens), tuple(map(float, tokens)))
    messages: tuple[Message, ...] = (
        {"role": "user", "content": text},
        {"role": "assistant", "content": text},
    )
    trajectory = Trajectory("p", messages, reward, Outcome.CORRECT, {"levels": [1]}, (reply,))
    again = trajectory_of(json.loads(json.dumps(row_of(trajectory, 3))))
    assert again == trajectory
    assert isinstance(again.replies[0].text, CutText) is is_cut


def test_files_that_hold_no_trajectories_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    row = row_of(ended("x"))
    for text, named in (
        ("nonsense", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "no JSON object"),
        ('{"a": 1}', "problem_id is missing"),
        ('{"reason": 5}', "problem_id is missing"),
        (json.dumps(row | {"outcome": "\x1b[2J"}), "outcome is none that there is"),
        (json.dumps(row | {"messages": [{"role": "user"}]}), "messages are not all role and content"),
        (json.dumps(row | {"messages": ["x"]}), "messages are not all role and content"),
        (json.dumps(row | {"replies": [{}]}), "replies do not all say"),
    ):
        path.write_text(f"{json.dumps(row)}\n{text}\n")
        with pytest.raises(UserError, match=f"line 2: .*{named}"):
            list(read_rows(path))
    path.write_text(json.dumps(row) + '\n{"half')
    assert list(read_rows(path)) == [row]


@pytest.mark.parametrize("name", ["problem_id", "sample", "outcome", "reward", "messages", "info", "replies"])
@pytest.mark.parametrize("value", [None, True, 5, 0.5, "x", [], {}, [[]]])
def test_a_row_is_read_whole_or_not_at_all(name: str, value: Any) -> None:
    """What was read can be shown and made a trajectory; the rest says which field is wrong."""
    line = json.dumps(row_of(ended("x")) | {name: value}).encode()
    good = {"problem_id": ["x"], "sample": [5], "reward": [5, 0.5], "info": [{}]}
    good |= {"messages": [[]], "replies": [[]]}
    if any(type(value) is type(other) and value == other for other in good.get(name, ())):
        assert trajectory_of(read_row(line)).problem_id
    else:
        with pytest.raises(ValueError, match=name):
            read_row(line)


def test_a_repair_rollout_leaves_out_what_nothing_has_failed(tmp_path: Path) -> None:
    base = {"title": "t", "statement": "Print the double.", "tests": [{"input": "1\n", "output": "2\n"}]}
    wrong = {"kind": "bug", "program": "print(1)", "expected": ["correctness_failure"]}
    right = {"kind": "efficient", "program": "print(2)", "expected": ["correct"]}
    problems = [
        base | {"id": "a", "submissions": [wrong, right]},
        base | {"id": "b", "statement": "Double it.", "submissions": [right]},
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    settings = Settings("cef/Repair-v0", "scripted:efficient", f"jsonl:{tmp_path / 'p.jsonl'}")
    summary = record(settings, Limits(), tmp_path / "out")
    assert (summary.outcomes, summary.dropped) == ({"correct": 1}, 1)
