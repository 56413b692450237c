"""`cef openrlhf`: from one YAML file to data, commands and a submitted run."""

import json
import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cef_env.cli import main
from cef_env.commands.merging import parse_alphas
from cef_env.training.openrlhf.config import load_launch
from cef_env.training.openrlhf.launch import launch
from cef_env.training.openrlhf.settings import AgentSettings
from tests.training.openrlhf.test_config import written


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def cef(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs `cef openrlhf` in this process."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["cef", "openrlhf", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out = capfd.readouterr()
        return Done(int(end.value.code or 0), out.out, out.err)

    return run


def commands(script: str) -> dict[str, list[str]]:
    """The words of each command of a launch script, by the stage that its comment names."""
    found = {}
    for part in script.split("\n\n")[1:]:
        comment, _, command = part.partition("\n")
        found[comment.removeprefix("# ").split(":")[0]] = shlex.split(command.replace("\\\n", " "))
    return found


@pytest.fixture
def config(tmp_path: Path) -> str:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    change = {
        "model": str(model),
        "run": str(tmp_path / "run"),
        "problems/eval": "builtin:hard?count=2",
        "sft": {},
    }
    return written(tmp_path, {**change, "environment": {"setting": "reasoning"}})


def test_the_script_has_every_stage_in_order_and_a_shell_reads_it(
    cef: Callable[..., Done], config: str, tmp_path: Path
) -> None:
    done = cef("command", config)
    assert done.returncode == 0, done.stderr
    stages = commands(done.stdout)
    assert list(stages) == ["export", "sft", "low", "high", "merge"]
    assert stages["export"][:4] == ["cef", "openrlhf", "export", config]
    assert stages["sft"][0] == "deepspeed"
    for name in ("low", "high"):
        words = stages[name]
        assert words[:3] == ["ray", "job", "submit"]
        assert words[words.index("--actor.model_name_or_path") + 1] == f"{tmp_path}/run/sft/model"
        assert words[words.index("--data.prompt_dataset") + 1] == f"data/{name}.jsonl"
        assert json.loads(words[words.index("--runtime-env-json") + 1])["working_dir"]
    low, high = (stages[name][stages[name].index("--ckpt.output_dir") + 1] for name in ("low", "high"))
    assert stages["merge"][:4] == ["cef", "merge", low, high]
    assert len(parse_alphas(stages["merge"][5])) == 9
    checked = subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=False)
    assert checked.returncode == 0
    assert not (tmp_path / "launch").exists()


FAKE_RAY = """#!{python}
import json, os, sys
from pathlib import Path
words = sys.argv[1:]
there = json.loads(words[words.index("--runtime-env-json") + 1])["working_dir"]
shipped = sorted(str(path.relative_to(there)) for path in Path(there).rglob("*.*"))
Path({seen!r}).write_text(json.dumps([words, shipped]))
sys.exit({status})
"""


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Puts a `ray` on the PATH that notes its arguments and ends with a status."""

    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")

    def make(status: int) -> None:
        program = tmp_path / "bin" / "ray"
        program.parent.mkdir(exist_ok=True)
        program.write_text(FAKE_RAY.format(python=sys.executable, seen=str(tmp_path / "seen"), status=status))
        program.chmod(0o755)

    return make


def test_a_run_is_submitted_when_its_data_and_warm_start_are_there(
    cef: Callable[..., Done], config: str, tmp_path: Path, ray: Callable[[int], None]
) -> None:
    ray(0)
    out = str(tmp_path / "launch")
    refused = cef("command", config, "--out", out, "--submit", "low")
    assert refused.returncode == 2
    assert "cef openrlhf export" in refused.stderr
    exported = cef("export", config, "--out", out)
    assert exported.returncode == 0, exported.stderr
    assert "low.jsonl: 2 rows" in exported.stdout
    refused = cef("command", config, "--out", out, "--submit", "low")
    assert refused.returncode == 2
    assert "run the sft line" in refused.stderr
    (tmp_path / "run" / "sft" / "model").mkdir(parents=True)
    (tmp_path / "run" / "sft" / "model" / "config.json").write_text("{}")
    assert not (tmp_path / "seen").exists()

    done = cef("command", config, "--out", out, "--submit", "low")
    assert done.returncode == 0, done.stderr
    words, shipped = json.loads((tmp_path / "seen").read_text())
    assert words[:2] == ["job", "submit"]
    assert words == commands((tmp_path / "launch" / "launch.sh").read_text())["low"][1:]
    data = ["data/eval.jsonl", "data/high.jsonl", "data/low.jsonl", "data/sft.jsonl"]
    assert shipped == ["agent.json", "agent.py", *data, "launch.sh"]
    assert AgentSettings.read(tmp_path / "launch" / "agent.json").environment.setting == "reasoning"

    ray(1)
    failed = cef("command", config, "--out", out, "--submit", "low")
    assert failed.returncode == 3
    assert "status 1" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["command", "huge"], "huge"),
        (["export", "huge", "--out", "launch"], "huge"),
        (["command", "CONFIG", "--out", "launch", "--submit", "middle"], "low, high"),
        (["command", "CONFIG", "--submit", "low"], "--out"),
    ],
)
def test_a_mistake_is_one_line_with_status_2(
    cef: Callable[..., Done], config: str, tmp_path: Path, arguments: list[str], named: str
) -> None:
    places = {"CONFIG": config, "launch": str(tmp_path / "launch")}
    done = cef(*(places.get(word, word) for word in arguments))
    assert done.returncode == 2
    assert named in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "launch").exists()


def test_a_coverage_without_problems_is_refused_before_anything_is_written(
    cef: Callable[..., Done], tmp_path: Path
) -> None:
    from cef_env.problems import jsonl
    from tests.conftest import double

    jsonl.write(tmp_path / "large.jsonl", [double("large", (2000,))])
    path = written(tmp_path, {"problems/train": f"jsonl:{tmp_path}/large.jsonl"})
    done = cef("command", path, "--out", str(tmp_path / "launch"))
    assert done.returncode == 2
    assert "coverages.low" in done.stderr
    assert not (tmp_path / "launch").exists()


def test_the_page_shows_the_commands_as_they_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "openrlhf.md").read_text()
    name = "qwen2.5-7b-tool-use"
    for stage in launch(load_launch(name), Path("/shared/launch"), name):
        if stage.name != "high":  # as low, but for names
            assert textwrap.indent(stage.text(), "    ") in page, stage.name
