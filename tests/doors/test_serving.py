"""`cef serve`: a server that says where it is, ends when interrupted, and refuses in one line."""

import importlib.util
import signal

import pytest

from tests.doors.served import served
from tests.test_cli import Cef, cef  # noqa: F401 - the fixture

HERE = importlib.util.find_spec("openenv") is not None


@pytest.mark.skipif(HERE, reason="openenv is installed here")
def test_without_the_package_the_command_says_what_to_install(cef: Cef) -> None:  # noqa: F811
    done = cef("serve", "openenv")
    assert done.returncode == 2
    assert 'pip install "cef-env[openenv]"' in done.stderr


@pytest.mark.skipif(not HERE, reason="the package openenv is not here; `make test-doors` installs it")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--env", "cef/Chess-v0"], "cef/Chess-v0"),
        (["--coverage", "much"], "much"),
        (["--problems", "nowhere:x"], "unknown scheme"),
        (["--env-option", "max_turns=0"], "max_turns"),
        (["--env-option", "sessions=3"], "sessions"),
    ],
)
def test_what_cannot_be_served_is_one_line(cef: Cef, arguments: list[str], named: str) -> None:  # noqa: F811
    done = cef("serve", "openenv", *arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not HERE, reason="the package openenv is not here; `make test-doors` installs it")
def test_the_command_serves_until_it_is_interrupted() -> None:
    from openenv import GenericEnvClient

    with served("--env", "cef/Reasoning-v0") as (server, url):
        with GenericEnvClient(base_url=url).sync() as client:
            assert client.reset(seed=1).observation["text"] == client.reset(seed=1).observation["text"]
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == 0
