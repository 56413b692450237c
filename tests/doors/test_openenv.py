"""The OpenEnv server, through OpenEnv's own client: real sockets, sandbox and judge."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

import httpx
import pytest

pytest.importorskip("openenv", reason="the package openenv is not here; `make test-doors` installs it")

import uvicorn
from openenv import GenericEnvClient

from cef_env.envs.text import fenced
from cef_env.envs.tool_use import ToolUseEnv
from cef_env.envs.tools import call_text
from cef_env.errors import UserError
from cef_env.problems import ProblemSet
from cef_env.sandbox import BoxError
from cef_env.training.doors.openenv import app
from tests.conftest import double

PROBLEMS = ProblemSet.of([double("small"), double("large", (20, 200))])
RIGHT, WRONG = fenced("print(2 * int(input()))"), fenced("print(input())")


class Served:
    """A server on a free port, in a thread."""

    def __init__(self, env_id: str, coverage: int | None = None, sessions: int = 8, **options: Any) -> None:
        config = uvicorn.Config(
            app(env_id, PROBLEMS, coverage, sessions, options), port=0, log_level="warning"
        )
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: self.server.started)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def client(self) -> Any:
        return GenericEnvClient(base_url=self.url).sync()

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(20)


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    one = Served("cef/ToolUse-v0", coverage=1, max_turns=3, tool_state="episode")
    yield one
    one.stop()


class Watch:
    """Counts environments that are open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = self.closed = 0
        init, close = ToolUseEnv.__init__, ToolUseEnv.close

        @wraps(init)
        def opened(env: ToolUseEnv, *arguments: Any, **options: Any) -> None:
            init(env, *arguments, **options)
            self.opened += 1

        def closed(env: ToolUseEnv) -> None:
            close(env)
            assert env._tool is None
            self.closed += 1

        monkeypatch.setattr(ToolUseEnv, "__init__", opened)
        monkeypatch.setattr(ToolUseEnv, "close", closed)


def test_an_episode_with_a_tool_call_ends_with_the_reward_of_its_answer(served: Served) -> None:
    with served.client() as client:
        first = client.reset(problem_id="small")
        assert "print its double" in first.observation["text"]
        assert (first.done, first.reward) == (False, None)
        said = client.step({"message": call_text("python", "code", "print(6 * 7)")})
        assert "42" in said.observation["text"]
        assert (said.done, said.reward) == (False, None)
        end = client.step({"message": RIGHT})
        assert (end.done, end.reward) == (True, 1.0)
        assert end.metadata["outcome"] == "correct"
        assert client.state()["step_count"] == 2


def test_sessions_at_once_share_nothing(served: Served) -> None:
    def played(number: int) -> tuple[str, float]:
        with served.client() as client:
            client.reset(problem_id="small")
            client.step({"message": call_text("python", "code", f"mine = {number}")})
            told = client.step({"message": call_text("python", "code", "print('mine is', mine)")})
            end = client.step({"message": RIGHT if number % 2 else WRONG})
            return told.observation["text"], end.reward

    with ThreadPoolExecutor(6) as pool:
        episodes = list(pool.map(played, range(6)))
    for number, (text, reward) in enumerate(episodes):
        assert f"mine is {number}\n" in text
        assert reward == number % 2


def test_a_cut_message_is_told_from_one_without_a_program(served: Served) -> None:
    with served.client() as client:
        causes = []
        for cut in (True, False):
            client.reset(problem_id="small")
            causes.append(client.step({"message": "I think", "cut": cut}).metadata["format_error"])
    assert causes == ["out_of_tokens", "no_code"]


def test_a_fault_of_the_instrument_is_an_error_and_never_a_reward(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise BoxError("the sandbox is gone")

    with served.client() as client:
        client.reset(problem_id="small")
        with monkeypatch.context() as patch:
            patch.setattr(ToolUseEnv, "_judged", broken)
            with pytest.raises(RuntimeError, match=r"instrument fault, .* no reward: the sandbox"):
                client.step({"message": RIGHT})
        with pytest.raises(RuntimeError, match="the episode is over"):
            client.step({"message": RIGHT})
        client.reset(problem_id="small")
        assert client.step({"message": RIGHT}).reward == 1.0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"problem_id": "none"}, "none"),
        ({"problem_id": "large"}, "no test under 10"),
        ({"difficulty": 3}, "difficulty"),
        ({"index": 1}, "has 1 tasks"),
        ({"split": "test"}, "one split"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_it(served: Served, options: dict[str, Any], named: str) -> None:
    with served.client() as client:
        with pytest.raises(RuntimeError, match=named):
            client.reset(**options)
        assert client.reset(problem_id="small").done is False


VANISHING = """
import json, sys, time
from websockets.sync.client import connect

url, keep, slow = sys.argv[1:]
sockets = [connect(url) for _ in range(4)]
for socket in sockets:
    for kind, data in (("reset", {"problem_id": "small"}), ("step", {"message": keep})):
        socket.send(json.dumps({"type": kind, "data": data}))
        assert json.loads(socket.recv())["type"] == "observation"
    socket.send(json.dumps({"type": "step", "data": {"message": slow}}))
print("busy", flush=True)
time.sleep(60)
"""


def test_sessions_whose_client_is_killed_in_a_step_leave_nothing_behind(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    keep, slow = (call_text("python", "code", code) for code in ("kept = 1", "import time; time.sleep(1)"))
    command = [sys.executable, "-c", VANISHING, f"{served.url}/ws".replace("http", "ws"), keep, slow]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "busy\n"
        assert (watch.opened, watch.closed) == (4, 0)
        client.kill()
    wait_until(lambda: watch.closed == 4)
    with served.client() as other:
        other.reset(problem_id="small")
        assert other.step({"message": RIGHT}).reward == 1.0


def test_one_session_too_many_is_refused_and_the_others_go_on() -> None:
    one = Served("cef/Reasoning-v0", sessions=1)
    try:
        with one.client() as first:
            first.reset(problem_id="small")
            with pytest.raises(RuntimeError, match="CAPACITY_REACHED"), one.client() as second:
                second.reset()
            assert first.step({"message": RIGHT}).reward == 1.0
    finally:
        one.stop()


def test_the_task_routes_list_the_problems_of_the_coverage_and_nothing_of_their_tests(served: Served) -> None:
    def post(route: str, **body: Any) -> Any:
        return httpx.post(f"{served.url}/ToolUse/{route}", json=body).raise_for_status().json()

    assert post("num_tasks", split="problems")["num_tasks"] == 1
    task = post("task", split="problems", index=0)
    assert "small" in str(task)
    assert "777" not in str(task)
    with served.client() as client:
        assert client.reset(split="problems", index=0).metadata["problem_id"] == "small"


def test_the_agentic_setting_is_served_with_its_terminal_and_judge() -> None:
    one = Served("cef/Agentic-v0", coverage=1)
    try:
        with one.client() as client:
            client.reset(problem_id="small")
            write = "echo 'print(2 * int(input()))' > a.py; echo 21 | python3 a.py"
            assert "42" in client.step({"message": call_text("bash", "command", write)}).observation["text"]
            assert client.step({"message": call_text("submit", "path", "a.py")}).reward == 1.0
    finally:
        one.stop()


def test_what_cannot_be_served_is_refused_before_the_server_starts() -> None:
    for arguments in (
        {"env_id": "cef/Chess-v0"},
        {"env_id": "cef/ToolUse-v0", "options": {"max_turns": 0}},
        {"env_id": "cef/ToolUse-v0", "options": {"turns": 3}},
        {"env_id": "cef/ToolUse-v0", "coverage": "much"},
    ):
        with pytest.raises(UserError):
            app(problems=PROBLEMS, **arguments)  # type: ignore[arg-type]
