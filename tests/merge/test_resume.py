"""A merge killed by SIGKILL at any point of its work continues to the same bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, shutil, sys
from pathlib import Path
import torch
torch.set_num_threads(1)  # before any work, so that a fork is safe
from cef_env.merge import plan, run
from cef_env.merge import stream
stream.CHUNK = 1 << 8
root = Path(sys.argv[1])
made = plan(root / "low", root / "high", [-0.5, 1.5])

def tree(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}

CALLS = ("fsync", "rename", "replace", "unlink", "pwrite")
REAL = {name: getattr(os, name) for name in CALLS}

def count_calls(action):
    # Call `action(n)` before the n-th sync, rename or removal; returns the counter.
    counter = [0]
    def patched(name):
        def call(*args, **kwargs):
            counter[0] += 1
            action(counter[0])
            if name != "fsync":  # what a real sync would add is time
                return REAL[name](*args, **kwargs)
        return call
    for name in CALLS:
        setattr(os, name, patched(name))
    return counter

def killed_at(n):
    pid = os.fork()
    if pid == 0:
        count_calls(lambda i: i == n and os.kill(os.getpid(), signal.SIGKILL))
        run(made, root / "out")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

total = count_calls(lambda n: None)
run(made, root / "reference")
total, expected = total[0], tree(root / "reference")

import random
# Twenty points at random, and with them each kind of step near the end, where the directory gets its name.
for n in sorted({*random.Random(0).sample(range(1, total + 1), 20), *range(total - 12, total + 1)}):
    shutil.rmtree(root / "out", ignore_errors=True)
    assert killed_at(n) == -signal.SIGKILL, n
    for final in (root / "out").glob("alpha_*"):
        if ".partial-" not in final.name:
            assert tree(final) == tree(root / "reference" / final.name), (n, final)
    run(made, root / "out")
    assert tree(root / "out") == expected, n
# Killed again and again, each time a little further on.
shutil.rmtree(root / "out")
for n in (3, 9, 17, 5, 11):
    killed_at(n)
run(made, root / "out")
assert tree(root / "out") == expected
print(total)
"""


def test_killed_at_twenty_random_points_and_near_the_end(pair: tuple[Path, Path], tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 200  # the run has that many points at which it can be killed


def test_partial_directories_of_another_plan_are_cleared(pair: tuple[Path, Path], tmp_path: Path):
    from cef_env.merge import plan, run

    stale = tmp_path / "out" / "alpha_0.5.partial-0123456789abcdef"
    stale.mkdir(parents=True)
    (stale / "model.safetensors").write_text("old")
    other = tmp_path / "out" / "alpha_2.partial-0123456789abcdef"
    other.mkdir()
    run(plan(*pair, [0.5]), tmp_path / "out")
    assert not stale.exists()
    assert other.exists()  # may belong to a plan that is yet to be continued


def test_an_input_that_changed_since_an_interrupted_run_is_refused(pair, tmp_path, monkeypatch):
    import os

    from cef_env.errors import UserError
    from cef_env.merge import plan, publish, run

    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publish, "finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(plan(*pair, [0.5]), tmp_path / "out")
    monkeypatch.undo()
    (partial,) = (tmp_path / "out").glob("alpha_0.5.partial-*")
    shard = next(pair[1].glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    os.utime(shard, ns=(1, 1))
    with pytest.raises(UserError, match=r"was begun before .* changed; remove it"):
        run(plan(*pair, [0.5]), tmp_path / "out")
    assert partial.is_dir()
    assert not (tmp_path / "out" / "alpha_0.5").exists()


@pytest.fixture
def small_disk(tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_disk_that_becomes_full_is_said_and_continued_when_there_is_room(
    small_disk: Path, checkpoint, tmp_path: Path, monkeypatch
):
    from cef_env.errors import UserError
    from cef_env.merge import load_state_dict, plan, run, stream

    sizes = {"vocab_size": 4000, "hidden_size": 64}
    low = checkpoint("big_low", 0, **sizes)
    high = checkpoint("big_high", 1, shard="100KB", **sizes)
    made = plan(low, high, [0.5, 1.5])
    run(made, tmp_path / "reference")
    monkeypatch.setattr(stream, "check_output", lambda plan, out: 0)  # as if others filled it meanwhile
    ballast = small_disk / "ballast"
    room = 2 * 2 * 4000 * 64 + 40_000  # the embeddings of both outputs and little more
    ballast.write_bytes(bytes((4 << 20) - room))
    with pytest.raises(UserError, match="the disk is full; what is finished is kept, make room"):
        run(made, small_disk / "out")
    assert not [p for p in (small_disk / "out").glob("alpha_*") if ".partial-" not in p.name]
    assert list((small_disk / "out").glob("*.partial-*/model-*.safetensors"))  # finished shards
    assert not list((small_disk / "out").glob("*.partial-*/*.tmp"))
    ballast.unlink()
    for path in run(made, small_disk / "out"):
        for file in (tmp_path / "reference" / path.name).iterdir():
            assert (path / file.name).read_bytes() == file.read_bytes()
    assert load_state_dict(small_disk / "out" / "alpha_1.5")
