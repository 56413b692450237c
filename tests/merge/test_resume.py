"""A merge killed by SIGKILL at any point of its work continues to the same bytes."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, signal, shutil, sys
from pathlib import Path
import torch
torch.set_num_threads(1)  # before any work, so that a fork is safe
from cef_env.merge import plan, run
root = Path(sys.argv[1])
made = plan(root / "low", root / "high", [-0.5, 1.5])

def tree(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}

CALLS = ("fsync", "rename", "unlink")
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

for n in range(1, total + 1):
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


def test_killed_before_every_sync_rename_and_removal(pair: tuple[Path, Path], tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 40  # the run has that many points at which it can be killed


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
