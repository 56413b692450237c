"""verifiers drives the OpenEnv server: its own taskset, environment and client, over real sockets."""

import json
import os
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cef_env.envs.text import fenced
from cef_env.envs.tools import call_text
from cef_env.problems import jsonl
from tests.conftest import double
from tests.doors.served import served

PYTHON = os.environ.get("VERIFIERS_PYTHON", "")
RIGHT, WRONG = fenced("print(2 * int(input()))"), fenced("print(input())")

pytestmark = pytest.mark.skipif(
    not PYTHON or find_spec("openenv") is None,
    reason="verifiers has an environment of its own, named by VERIFIERS_PYTHON; run `make test-doors`",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server of one problem, in the setting with tool calls."""
    path = tmp_path_factory.mktemp("served") / "problems.jsonl"
    jsonl.write(path, [double("small")])
    words = ["--env", "cef/ToolUse-v0", "--problems", f"jsonl:{path}", "--coverage", "1"]
    with served(*words) as (server, address):
        yield address
        server.terminate()


def played(url: str, *messages: list[str]) -> list[tuple[dict[str, float], list[Any]]]:
    """The rewards that verifiers records, and what it shows to the agent, for an episode of each script."""
    resets = json.dumps([{"problem_id": "small"}] * len(messages))
    player = Path(__file__).with_name("verifiers_player.py")
    command = [PYTHON, str(player), url, resets, json.dumps(messages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return [(rewards, shown) for rewards, shown in json.loads(done.stdout.splitlines()[-1])]


def test_an_episode_is_played_to_the_reward_that_verifiers_records(url: str) -> None:
    call = call_text("python", "code", "print(6 * 7)")
    right, wrong, fence = played(
        url,
        [call, json.dumps({"message": RIGHT})],
        [f"It is this:\n{WRONG}"],
        [RIGHT, json.dumps({"message": RIGHT})],
    )
    assert right[0] == {"openenv_reward": 1.0}
    first, second = right[1]
    assert "print its double" in first["observation"]["text"]
    assert "message" in first["action_schema"]["required"]
    assert "42" in second["observation"]["text"]
    assert wrong[0] == {"openenv_reward": 0.0}
    # verifiers takes the fence off a message that is nothing else, and no program is left in it.
    assert len(fence[1]) == 1
    assert fence[0] == {"openenv_reward": 0.0}
