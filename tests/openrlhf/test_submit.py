"""`cef openrlhf command --submit` against a real job server: head node, dashboard, working directory, status.

The command is submitted as it is. Only the trainer that it names is a stand-in, which lies in the launch
folder and so comes before OpenRLHF's: it notes what reached it and what it finds there.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.openrlhf.test_config import written

REASON = "needs OpenRLHF and Ray with its job server (ray[default]); run `make test-openrlhf`"
ray = pytest.importorskip("ray", reason=REASON)
pytest.importorskip("openrlhf.utils.agent", reason=REASON)
for needed in ("aiohttp_cors", "opencensus", "smart_open"):
    pytest.importorskip(needed, reason=REASON)

ROOT = Path(__file__).parents[2]
PACKAGE = "from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n"
TRAINER = '''
import json, os, sys
from pathlib import Path

import ray
from openrlhf.trainer.ray.vllm_engine import _load_agent_executor

ray.init()

@ray.remote
def engine(agent, name):
    """Where an engine would be: another process of the cluster, with the same working directory."""
    executor = _load_agent_executor(agent)
    row = json.loads(Path(name).read_text().splitlines()[0])
    return [executor.environments.settings.environment.setting, row["prompt"][:60], os.getcwd()]

argument = lambda name: sys.argv[sys.argv.index(name) + 1]
seen = ray.get(engine.remote(argument("--train.agent_func_path"), argument("--data.prompt_dataset")))
Path({seen!r}).write_text(json.dumps([sys.argv[1:], *seen]))
print("the trainer was here")
sys.exit({status})
'''


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of the job server of a head node that is ended with all its processes."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    port = free_port()
    options = {
        "include_dashboard": True,
        "dashboard_host": "127.0.0.1",
        "dashboard_port": port,
        "dashboard_agent_listen_port": free_port(),  # else one port for all clusters of a machine
    }
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "object_store_memory": 100 << 20, **options},
    )
    try:
        wait_for_agent(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        cluster.shutdown()


def wait_for_agent(address: str, seconds: float = 120.0) -> None:
    """Until the node takes jobs, which is some seconds after its dashboard answers."""
    from ray.job_submission import JobSubmissionClient

    client, end = JobSubmissionClient(address), time.monotonic() + seconds
    while True:
        try:
            client.submit_job(entrypoint="true")
            return
        except RuntimeError as error:
            if "No available agent" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(1)


def trainer(folder: Path, **values: Any) -> None:
    (folder / "openrlhf" / "cli").mkdir(parents=True, exist_ok=True)
    (folder / "openrlhf" / "__init__.py").write_text(PACKAGE)
    (folder / "openrlhf" / "cli" / "__init__.py").write_text("")
    (folder / "openrlhf" / "cli" / "train_ppo_ray.py").write_text(TRAINER.format(**values))


def cef(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cef_env.cli", "openrlhf", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=ROOT)


def test_a_submitted_run_reaches_the_trainer_with_its_folder_and_its_status_comes_back(
    address: str, tmp_path: Path
) -> None:
    model, folder, seen = tmp_path / "model", tmp_path / "launch", tmp_path / "seen"
    model.mkdir()
    (model / "config.json").write_text("{}")
    change = {"model": str(model), "run": str(tmp_path / "run"), "cluster/address": address}
    config = written(tmp_path, {**change, "environment": {"setting": "reasoning"}})
    exported = cef("export", config, "--out", str(folder))
    assert exported.returncode == 0, exported.stderr

    trainer(folder, seen=str(seen), status=0)
    done = cef("command", config, "--out", str(folder), "--submit", "low")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the trainer was here" in done.stdout
    words, setting, prompt, place = json.loads(seen.read_text())
    script = (folder / "launch.sh").read_text().split("# low:")[1].split("\n\n")[0].partition("\n")[2]
    submitted = shlex.split(script.replace("\\\n", " "))
    assert words == submitted[submitted.index("openrlhf.cli.train_ppo_ray") + 1 :]
    assert setting == "reasoning"
    row = json.loads((folder / "data" / "low.jsonl").read_text().splitlines()[0])
    assert row["prompt"].startswith(prompt)
    assert Path(place) != folder  # Ray's copy of it

    trainer(folder, seen=str(seen), status=7)
    failed = cef("command", config, "--out", str(folder), "--submit", "low")
    assert failed.returncode == 3
    assert "ray job submit ended with status" in failed.stderr
