"""The sample store: round trip, torn writes, SIGKILL, two processes, no duplicates."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cef_env.errors import UserError
from cef_env.eval import Chunk, Member, Sample, SampleStore, plan_chunks, read_samples
from cef_env.judge.types import Outcome

PROBLEMS = [f"p{i}" for i in range(5)]


def answer(split: str, member: Member, problem: str, index: int) -> Sample:
    kinds = list(Outcome)
    kind = kinds[(int(problem[1:]) + index) % 3] if index % 4 else Outcome.FORMAT_ERROR
    cause = "no_code" if kind is Outcome.FORMAT_ERROR else None
    return Sample(
        problem, split, member.alpha, index, kind, index % 4, cause, None if cause else "ab" * 32, index,
        ("t",), label=member.label,
    )  # fmt: skip


def fill(chunk: Chunk) -> list[Sample]:
    return [answer(*cell) for cell in sorted(chunk.cells, key=lambda cell: cell[2:])]


def all_chunks() -> list[Chunk]:
    return [c for alpha in (-0.5, 0.0, 1.0) for c in plan_chunks("hard", alpha, PROBLEMS, 7, 2, 3)]


def test_chunks_cover_the_work_once():
    cells = [cell for chunk in all_chunks() for cell in chunk.cells]
    assert len(cells) == len(set(cells)) == 3 * 5 * 7
    assert len({chunk.seed for chunk in all_chunks()}) == len(all_chunks())
    with pytest.raises(UserError, match="lists a problem twice"):
        plan_chunks("hard", 0, ["a", "a"], 3)
    with pytest.raises(UserError, match="at least 1"):
        plan_chunks("hard", 0, ["a"], 0)


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "samples.jsonl"
    with SampleStore(path) as store:
        for chunk in all_chunks():
            assert chunk not in store.done
            store.append(chunk, fill(chunk))
        kept = store.samples
    assert read_samples(path) == kept
    assert len(kept) == 105
    with SampleStore(path) as store:
        assert store.samples == kept
        assert store.done == set(all_chunks())
    for line in path.read_text().splitlines():
        json.loads(line)


def test_torn_at_any_byte(tmp_path):
    """Whatever prefix of the last write reached the disk, earlier chunks survive and the last is redone."""
    path = tmp_path / "samples.jsonl"
    first, second = all_chunks()[:2]
    with SampleStore(path) as store:
        store.append(first, fill(first))
    before = path.read_bytes()
    with SampleStore(path) as store:
        store.append(second, fill(second))
    whole = path.read_bytes()
    for cut in [*range(len(before), len(whole), 5), len(whole) - 2, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        assert read_samples(path) == fill(first)
        assert path.stat().st_size == cut  # a reader changes nothing
        with SampleStore(path) as store:
            assert store.done == {first}
            if cut % 2 == 0:
                store.append(second, fill(second))
                assert path.read_bytes() == whole
            else:
                assert path.read_bytes() == before
    # A tail of zeros, as some file systems leave after a power cut.
    path.write_bytes(before + bytes(500))
    with SampleStore(path) as store:
        assert store.done == {first}


def test_duplicates_and_wrong_chunks_are_refused(tmp_path):
    path = tmp_path / "samples.jsonl"
    chunk, other = all_chunks()[:2]
    with SampleStore(path) as store:
        store.append(chunk, fill(chunk))
        size = path.stat().st_size
        overlapping = Chunk("hard", -0.5, ("p0",), 2, 5)
        for bad_chunk, samples, match in [
            (chunk, fill(chunk), "already holds"),
            (overlapping, fill(overlapping), "already holds"),
            (other, fill(other)[1:], "needs 6 distinct samples, got 5"),
            (other, [*fill(other), fill(other)[0]], "got 7"),
            (other, fill(chunk), "of which 0 belong to it"),
        ]:
            with pytest.raises(UserError, match=match):
                store.append(bad_chunk, samples)
        assert path.stat().st_size == size


def test_damage_before_the_last_commit_is_not_dropped_silently(tmp_path):
    path = tmp_path / "samples.jsonl"
    with SampleStore(path) as store:
        for chunk in all_chunks()[:2]:
            store.append(chunk, fill(chunk))
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"index":1,', b'"index":9,', 1))
    with pytest.raises(UserError, match="damaged after byte 0"):
        SampleStore(path)
    path.write_bytes(data.replace(b'{"commit":{', b'{"commit":[', 1))
    with pytest.raises(UserError, match="damaged at byte 0"):
        read_samples(path)
    path.write_bytes(data)
    SampleStore(path).close()  # the refusals released the lock


def test_a_second_process_is_refused(tmp_path):
    path = tmp_path / "samples.jsonl"
    code = f"from cef_env.eval import SampleStore; SampleStore({str(path)!r})"
    with SampleStore(path):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "another process is writing it" in done.stderr
        assert "UserError" in done.stderr
        read_samples(path)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_full_disk_leaves_whole_chunks(tmp_path, monkeypatch):
    path = tmp_path / "samples.jsonl"
    first, second = all_chunks()[:2]
    with SampleStore(path) as store:
        store.append(first, fill(first))
        before = path.read_bytes()

        class Full:
            def __init__(self, file):
                self.file = file

            def write(self, data):
                return self.file.write(data[:100])

            def __getattr__(self, name):
                return getattr(self.file, name)

        monkeypatch.setattr(store, "_file", Full(store._file))
        with pytest.raises(UserError, match="disk is full"):
            store.append(second, fill(second))
        assert path.read_bytes() == before
        assert store.done == {first}


WRITER = """
import sys
from tests.eval.test_store import SampleStore, all_chunks, fill
with SampleStore(sys.argv[1]) as store:
    print("open", flush=True)
    for chunk in all_chunks():
        if chunk not in store.done:
            store.append(chunk, fill(chunk))
            print(len(store.done), flush=True)
"""


def test_sigkill_then_resume_gives_the_same_samples(tmp_path):
    path = tmp_path / "samples.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", WRITER]
    for kill_after in (1, 2, 4):
        with subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            for _ in range(kill_after):
                process.stdout.readline()
            time.sleep(0.0007 * kill_after)  # somewhere inside the next append
            process.send_signal(signal.SIGKILL)
    subprocess.run([*command, str(path)], env=environment, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        [*command, str(tmp_path / "whole.jsonl")], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_format_error_needs_its_cause():
    with pytest.raises(UserError, match="a cause belongs to every format error"):
        Sample("p", "s", 0.0, 0, Outcome.FORMAT_ERROR)
    with pytest.raises(UserError, match="a cause belongs to every format error"):
        Sample("p", "s", 0.0, 0, Outcome.CORRECT, format_error="no_code")
    sample = Sample("p", "s", 0.25, 3, Outcome.FORMAT_ERROR, 0, "no_code", None, 5, ("a", "b"))
    assert Sample.from_json(json.loads(json.dumps(sample.to_json()))) == sample


def test_rows_from_before_there_were_controls_and_difficulties_are_read():
    old = {
        "problem_id": "p", "split": "s", "alpha": 0.5, "index": 0, "outcome": "correct",
        "coverage_reached": 3,
        "format_error": None, "program_sha256": None, "tokens": 5, "tags": ["a"],
    }  # fmt: skip
    sample = Sample.from_json(old)
    assert sample.member == Member(0.5)
    assert sample.to_json() == old | {"compile_error": False}


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_samples(tmp_path / "nothing.jsonl")
