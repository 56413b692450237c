"""The tier `docker`: what is asked of engine and image, what is refused, what a killed judge leaves."""

import contextlib
import os

import pytest

from cef_env.errors import SandboxUnavailableError
from cef_env.sandbox import Box, Limits, docker, owner, resolve, tiers
from tests.judge.helpers import tier_or_skip


@pytest.fixture(autouse=True)
def _fresh() -> None:
    tiers._resolve.cache_clear()


def test_without_an_engine_the_reason_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    with pytest.raises(
        SandboxUnavailableError, match="no Docker engine answers at unix:///nowhere"
    ) as caught:
        resolve("docker")
    assert "\n" not in str(caught.value)


def test_a_missing_image_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tier_or_skip("docker")
    monkeypatch.setenv(docker.IMAGE_VARIABLE, "cef-no-such-image:1")
    reason = dict(tiers.survey())[tiers.Tier.DOCKER]
    assert reason is not None
    assert "docker pull cef-no-such-image:1" in reason
    tiers._resolve.cache_clear()
    with pytest.raises(SandboxUnavailableError, match="cannot be pulled") as caught:
        resolve("docker")
    assert "\n" not in str(caught.value)


def test_an_image_without_python_or_with_an_old_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tier_or_skip("docker")
    docker._probe.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(docker, "_PROBE", "print(False, 3, 9, '')")
        with pytest.raises(SandboxUnavailableError, match=r"Python 3\.9 of image .* too old"):
            docker.require_image(pull=False)
    docker._probe.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(docker, "_PROBE", "import no_such_module")
        with pytest.raises(SandboxUnavailableError, match="runs no python3") as caught:
            docker.require_image(pull=False)
        assert "\n" not in str(caught.value)
    docker._probe.cache_clear()


def test_programs_meet_a_closed_container() -> None:
    program = """
import os, socket
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["CapEff"].strip(), status["NoNewPrivs"].strip(), status["CapBnd"].strip())
print(sorted(set(os.listdir("/proc")) & {str(n) for n in range(2, 100000)} - {str(os.getpid()), str(os.getppid())}))
print(os.listdir("/sys/class/net"))
reached = []
for path in ("/cef/host/socket", "/cef/inside/zygote.py", "/etc/passwd", "/new", "/proc/sys/kernel/hostname"):
    try: reached.append(open(path, "a").name)
    except OSError: pass
print(reached)
"""
    with Box(tier_or_skip("docker")) as box:
        assert box.load(program, Limits(2.0, 128 << 20)) is None
        lines = box.run(b"").stdout.decode().splitlines()
        # SETUID, SETGID and KILL are all that the container's root has, and a test not even those.
        assert lines == ["0000000000000000 1 00000000000000e0", "[]", "['lo']", "[]"]
        limits = box.zygote._container.attrs["HostConfig"]
        asked = {name: limits[name] for name in ("ReadonlyRootfs", "NetworkMode", "PidsLimit", "CapDrop")}
        assert asked == {"ReadonlyRootfs": True, "NetworkMode": "none", "PidsLimit": 112, "CapDrop": ["ALL"]}


def test_containers_of_dead_judges_are_removed_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    image = tier_or_skip("docker").image
    dead = f"{owner.pid_namespace()}.{2**22 + 5}.77"
    with contextlib.closing(docker.connect()) as client:
        started = [
            client.containers.run(
                image,
                [],
                entrypoint=["sleep", "100"],
                detach=True,
                network_mode="none",
                labels={docker.LABEL: mark},
            )
            for mark in (dead, owner.mark(), "1.2.3")
        ]
        try:
            assert docker.sweep(client) == 1
            alive = {container.id for container in client.containers.list(all=True)}
            assert [container.id in alive for container in started] == [False, True, True]
        finally:
            for container in started[1:]:
                container.remove(force=True)


def test_children_are_charged_while_they_run() -> None:
    """Where the container's counter is mounted in it, which is so by default."""
    program = "import os\nos.fork()\nos.fork()\nwhile True: pass"
    with Box(tier_or_skip("docker")) as box:
        assert box.load(program, Limits(0.4, 64 << 20)) is None
        assert box.run(b"").cpu_s < 1.0
    assert os.getpid() != 1
