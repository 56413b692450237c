"""`cef eval` from request to counts: kills, shards, joins, controls, refusals. The judge is real."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cef_env.errors import UserError
from cef_env.eval import Member, Plan, Sample, SampleStore, Work, read_tables
from cef_env.eval.join import join
from cef_env.eval.members import merged_recipes, plain_recipes
from cef_env.eval.plan import SAMPLES, claim, read_plan
from cef_env.eval.programs import PROGRAMS, VERDICTS, read_judgements, read_programs
from cef_env.eval.run import Request, load_splits, parse_shard, run_sweep
from cef_env.eval.store import with_commit
from cef_env.eval.tables import PARQUET, compact, iter_folder
from cef_env.judge import Judge, Outcome

ROOT = Path(__file__).parents[2]
AGENT = "tests.eval.seeded:SeededAgent"
REQUEST = Request(
    problems=("hard=builtin:hard?count=3", "easy=builtin:easy?count=2"), samples=4, chunk_problems=2,
    chunk_samples=3, members=(f"0={AGENT}", f"1={AGENT}", f"other={AGENT}"), controls=("temperature=1.5",),
)  # fmt: skip
FLAGS = [
    *("--problems", ",".join(REQUEST.problems), "--samples", "4", "--chunk-problems", "2"),
    *("--chunk-samples", "3", *(f for m in REQUEST.members for f in ("--member", m))),
    *("--control", "temperature=1.5"),
]


def quiet(done: int, total: int, note: str) -> None:
    """Progress that nobody sees."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed sweep."""
    out = tmp_path_factory.mktemp("whole") / "sweep"
    assert run_sweep(REQUEST, out, quiet) == out
    return out


def start(out: Path, *more: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "cef_env.cli", "eval", *FLAGS, "--out", str(out), *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_sweep_holds_every_answer_of_every_member_with_its_program(whole):
    tables = read_tables(whole)
    assert [m.name for m in tables["hard"].members] == ["alpha 0", "alpha 1", "other", "temperature 1.5"]
    assert {split: len(counts.problem_ids) for split, counts in tables.items()} == {"hard": 3, "easy": 2}
    assert all((counts.n == 4).all() for counts in tables.values())
    assert set(tables["hard"].difficulties) == {"hard"}
    samples = list(iter_folder(whole))
    programs = {row.sha256: row.program for row in read_programs(whole)}
    judged = {(j.problem_id, j.sha256): j for j in read_judgements(whole)}
    for s in samples:
        if s.program_sha256 is None:
            assert s.outcome is Outcome.FORMAT_ERROR
        else:
            assert programs[s.program_sha256]
            assert judged[s.problem_id, s.program_sha256].outcome is s.outcome
    assert any(j.compile_error for j in judged.values())
    assert len(programs) < len(samples) / 4
    assert len({s.program_sha256 for s in samples if s.member == Member(0.0)}) > 1


def test_killed_again_and_again_it_ends_with_the_same_files(whole, tmp_path):
    out = tmp_path / "sweep"
    size = 0
    for _ in range(2):
        process = start(out)
        deadline = time.monotonic() + 120
        while not (out / SAMPLES).exists() or (out / SAMPLES).stat().st_size <= size:
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.003)
        size = (out / SAMPLES).stat().st_size
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    process = start(out)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr.decode()
    assert b"temperature" in stdout
    for name in (SAMPLES, PROGRAMS, "plan.json"):
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name


def test_shards_join_to_what_one_process_draws(whole, tmp_path):
    out = tmp_path / "sweep"
    folders = [run_sweep(replace(REQUEST, shard=(i, 3)), out, quiet) for i in (3, 1, 2)]
    assert folders[0] == out / "shard-3-of-3"
    with pytest.raises(UserError, match="shard 2 of 3 is not given"):
        join(tmp_path / "joined", folders[:2], quiet)
    with pytest.raises(UserError, match="are both shard 1/3"):
        join(tmp_path / "joined", [*folders, shutil.copytree(folders[1], tmp_path / "again")], quiet)
    other = run_sweep(replace(REQUEST, shard=(2, 3), seed=1), tmp_path / "other", quiet)
    with pytest.raises(UserError, match=r"different sweeps \(key config.seed differs\)"):
        join(tmp_path / "joined", [*folders[:2], other], quiet)
    with pytest.raises(UserError, match="is a whole sweep, not a shard"):
        join(tmp_path / "joined", [*folders[:2], whole], quiet)
    damaged = tmp_path / "damaged"
    shutil.copytree(folders[2], damaged)
    data = (damaged / SAMPLES).read_bytes()
    (damaged / SAMPLES).write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match="planned chunks are missing"):
        join(tmp_path / "joined", [*folders[:2], damaged], quiet)
    assert not (tmp_path / "joined").exists()
    join(out, [], quiet)
    assert (out / SAMPLES).read_bytes() == (whole / SAMPLES).read_bytes()
    assert (out / "plan.json").read_bytes() == (whole / "plan.json").read_bytes()
    assert (out / PROGRAMS).read_bytes() == (whole / PROGRAMS).read_bytes()
    with pytest.raises(UserError, match="holds a sweep already"):
        join(out, folders, quiet)


def test_equal_programs_are_judged_once_whoever_wrote_them(whole, tmp_path, monkeypatch):
    """Executions equal distinct (problem, program) pairs, over four members that share their programs."""
    executed = []
    once = Judge._run_twice
    monkeypatch.setattr(
        Judge, "_run_twice", lambda self, job, watch=None: executed.append(job) or once(self, job, watch)
    )
    run_sweep(REQUEST, tmp_path / "sweep", quiet)
    pairs = {(s.problem_id, s.program_sha256) for s in iter_folder(whole) if s.program_sha256}
    answers = [s for s in iter_folder(whole) if s.program_sha256]
    assert len(executed) == len(pairs)
    assert len(answers) > 2 * len(pairs)


def test_a_finished_sweep_that_lost_its_end_is_refused_not_averaged(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "sweep")
    path = tmp_path / "sweep" / SAMPLES
    data = path.read_bytes()
    cut = data.rindex(b'{"commit"', 0, len(data) - 400)
    path.write_bytes(data[: data.index(b"\n", cut) + 1])
    with pytest.raises(
        UserError, match="1 of 24 planned chunks are missing, the first being answers 3 to 3 of"
    ):
        read_tables(tmp_path / "sweep")
    assert read_tables(tmp_path / "sweep", partial=True)["hard"].left_out in (
        (),
        (Member(None, "temperature 1.5"),),
    )
    run_sweep(REQUEST, tmp_path / "sweep", quiet)
    assert path.read_bytes() == data


def test_another_request_in_the_same_folder_is_refused_with_the_key(whole):
    with pytest.raises(UserError, match=r"another sweep \(key config.seed differs\)"):
        run_sweep(replace(REQUEST, seed=5), whole, quiet)
    with pytest.raises(UserError, match=r"key config.problems.hard differs"):
        run_sweep(replace(REQUEST, problems=("hard=builtin:hard?count=4", REQUEST.problems[1])), whole, quiet)


def test_parquet_holds_the_same_counts(whole, tmp_path):
    folder = tmp_path / "sweep"
    shutil.copytree(whole, folder)
    before, samples = read_tables(folder), list(iter_folder(folder))
    assert compact(folder) == folder / PARQUET
    assert not (folder / SAMPLES).exists()
    after = read_tables(folder)
    for split, counts in before.items():
        for name in ("outcomes", "causes", "uncompiled", "tokens"):
            assert (getattr(after[split], name) == getattr(counts, name)).all()
        for name in ("members", "problem_ids", "tags", "difficulties"):
            assert getattr(after[split], name) == getattr(counts, name)
    assert list(iter_folder(folder)) == samples
    compact(folder)
    (folder / PARQUET).write_bytes((folder / PARQUET).read_bytes()[:-20])
    with pytest.raises(UserError, match="damaged"):
        read_tables(folder)


def test_samples_that_were_not_planned_are_refused(tmp_path):
    plan = Plan((Work(Member(0.0), "s", ("a", "b"), 2),), chunk_samples=1)
    claim(tmp_path, plan)
    stranger = next(Plan((Work(Member(1.0), "s", ("a",), 1),)).all_chunks())
    with SampleStore(tmp_path / SAMPLES) as store:
        store.append(stranger, [Sample("a", "s", 1.0, 0, Outcome.CORRECT)])
    with pytest.raises(
        UserError, match="holds answers 0 to 0 of alpha 1 to 'a' of split 's', which is not planned"
    ):
        read_tables(tmp_path)


def test_a_plan_without_answers_gives_way_and_one_with_answers_does_not(tmp_path):
    first, second = (Plan((Work(Member(a), "s", ("a",), 1),)) for a in (0.0, 1.0))
    claim(tmp_path, first)
    claim(tmp_path, second)
    with SampleStore(tmp_path / SAMPLES) as store:
        store.append(second.chunks()[0], [Sample("a", "s", 1.0, 0, Outcome.CORRECT)])
    with pytest.raises(UserError, match=r"holds another sweep \(key work differs\)"):
        claim(tmp_path, first)


def test_a_refused_command_can_be_corrected_in_the_same_folder(tmp_path):
    refused = Request(problems=("builtin:easy?count=1",), samples=1, agent="scripted:nobody")
    with pytest.raises(UserError, match="scripted:nobody is unknown"):
        run_sweep(refused, tmp_path / "sweep", quiet)
    run_sweep(replace(refused, agent="scripted:efficient"), tmp_path / "sweep", quiet)
    assert read_tables(tmp_path / "sweep")["builtin:easy?count=1"].correct.sum() == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 10**20}, "--samples 100000000000000000000: from 1 to"),
        ({"temperature": float("nan")}, "--temperature nan"),
        ({"temperature": float("inf")}, "--temperature inf"),
        ({"max_new_tokens": 0}, "--max-new-tokens 0"),
        ({"chunk_problems": 0}, "--chunk-problems 0"),
        ({"chunk_samples": 0}, "--chunk-samples 0"),
        ({"alphas": (1e30,)}, r"alpha 1e\+30"),
        ({"env": "CartPole-v1"}, "'CartPole-v1' takes no coverage"),
        ({"env": ""}, "environment '' is unknown"),
        ({"env": "nowhere_at_all:X-v0"}, "environment 'nowhere_at_all:X-v0' is unknown"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_the_name_of_its_option(tmp_path, changes, message):
    request = Request(problems=("builtin:easy?count=1",), samples=1, agent="scripted:efficient")
    with pytest.raises(UserError, match=message):
        run_sweep(replace(request, **changes), tmp_path / "sweep", quiet)
    assert not (tmp_path / "sweep" / "plan.json").exists()


@pytest.mark.parametrize("file", ["samples.jsonl", PROGRAMS, VERDICTS])
@pytest.mark.parametrize("row", [b"{}\n", b"[]\n", b"[" * 100_000 + b"\n"])
def test_a_row_of_another_form_is_refused_by_the_name_of_its_file(whole, tmp_path, file, row):
    folder = Path(shutil.copytree(whole, tmp_path / "sweep"))
    if file == SAMPLES:  # with a commit, so that only the form is wrong
        chunk = read_plan(folder).chunks()[0]
        row = with_commit(chunk, row)
    (folder / file).write_bytes(row)
    read = {PROGRAMS: read_programs, VERDICTS: read_judgements, SAMPLES: iter_folder}[file]
    with pytest.raises(UserError, match=file if file != SAMPLES else "sweep"):
        list(read(folder))
    if file == SAMPLES:
        with pytest.raises(UserError, match=file):
            read_tables(folder)


def test_a_plan_with_another_kind_of_config_is_refused(whole, tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(read_plan(whole).to_json() | {"config": []}))
    with pytest.raises(UserError, match="not a plan"):
        read_plan(tmp_path)


def test_close_alphas_have_names_of_their_own():
    assert [Member(a).name for a in (0.5, 0.12345678, 0.12345679)] == [
        "alpha 0.5", "alpha 0.12345678", "alpha 0.12345679",
    ]  # fmt: skip


def test_members_of_a_sweep():
    merged = merged_recipes("hf:x", (-0.5, 0.0, 1.0, 1.5), ("random-direction", "temperature=1.2,1.5"))
    assert [r.member.name for r in merged] == [
        "alpha -0.5", "alpha 0", "alpha 1", "alpha 1.5", "random -0.5", "random 1.5", "temperature 1.2",
        "temperature 1.5",
    ]  # fmt: skip
    assert [(r.merge, r.random) for r in merged[4:6]] == [(-0.5, True), (1.5, True)]
    assert [(r.merge, r.temperature) for r in merged[6:]] == [(1.0, 1.2), (1.0, 1.5)]
    plain = plain_recipes("hf:y", None, ["0.5=hf:z", "base=openai:m@http://h"], [])
    assert [r.member for r in plain] == [Member(None, "hf:y"), Member(0.5), Member(None, "base")]
    assert plain_recipes("hf:y", 1.5, [], [])[0].member == Member(1.5)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"members": ()}, "nobody answers"),
        ({"members": ("x",)}, "write LABEL=AGENT"),
        ({"members": ("0=a:b", "0.0=c:d")}, "member alpha 0 is given twice"),
        ({"members": ("inf=a:b",)}, "give a finite number"),
        ({"controls": ("heat",)}, "use random-direction or temperature"),
        ({"controls": ("temperature=-1",)}, "use random-direction or temperature"),
        ({"controls": ("random-direction",)}, "give --low and --high"),
        ({"low": Path("x")}, "give both --low and --high"),
        ({"low": Path("x"), "high": Path("y")}, "leave it out with --low and --high"),
        ({"low": Path("x"), "high": Path("y"), "members": ()}, "need --alphas"),
        ({"alphas": (0.0, 1.0)}, "several alphas need --low and --high"),
        ({"samples": 0}, "from 1 to"),
        ({"env": "cef/Nothing-v0"}, "is unknown"),
        ({"problems": ("builtin", "builtin")}, "is given twice"),
    ],
)
def test_mistakes_are_named_and_leave_no_samples(change, match, tmp_path):
    with pytest.raises(UserError, match=match):
        run_sweep(replace(REQUEST, **change), tmp_path / "sweep", quiet)
    assert not (tmp_path / "sweep" / SAMPLES).exists()


def test_split_names_and_shards_are_parsed():
    splits = load_splits(("x=builtin:hard?count=2", "builtin:easy?count=1"))
    assert list(splits) == ["x", "builtin:easy?count=1"]
    assert parse_shard("2/4") == (2, 4)
    for text in ("0/4", "5/4", "x", "1"):
        with pytest.raises(UserError, match="write i/n"):
            parse_shard(text)


def test_verdicts_are_kept_test_by_test(whole):
    row = json.loads((whole / VERDICTS).read_text().splitlines()[0])
    assert row["tests"][0][0] in ("accepted", "wrong_answer", "runtime_error")
    assert row["tests"][0][1] > 0
