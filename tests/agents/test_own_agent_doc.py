"""The example of docs/bring_your_own_agent.md runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "bring_your_own_agent.md").read_text()


def run(folder: Path, *arguments: str) -> str:
    (example,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    (folder / "my_agent.py").write_text(example)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_is_short_and_plays_its_episodes(tmp_path: Path) -> None:
    assert run(tmp_path, "my_agent.py").splitlines() == [
        "train/inversions.plain.small correct 1.0",
        "train/inversions.plus5.large correctness_failure 0.0",
        "0 episodes were failed by the instrument",
    ]
    (example,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert len([line for line in example.splitlines() if line.strip()]) < 40


def test_the_command_plays_the_same_class(tmp_path: Path) -> None:
    command = next(line.split() for line in TEXT.splitlines() if line.startswith("    cef rollout"))
    arguments = ["builtin:easy?count=3" if word == "builtin:easy" else word for word in command[1:]]
    out = run(tmp_path, "-m", "cef_env.cli", *arguments)
    assert "3 episodes: mean reward" in out
    assert (tmp_path / "runs" / "mine" / "trajectories.jsonl").read_text().count("\n") == 3
