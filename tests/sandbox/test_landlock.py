"""Landlock by version, the proof that signals are confined, and what is refused without it."""

import os
import signal
import time
from pathlib import Path

import pytest

from cef_env.errors import SandboxUnavailableError
from cef_env.sandbox import Box, Limits, Plan, Tier, landlock, owner, resolve, tiers
from cef_env.sandbox.inside import isolation
from cef_env.sandbox.inside.landlock import IOCTL_DEV, REFER, TRUNCATE, Ruleset, kernel_abi, known
from tests.judge.helpers import tier_or_skip

LIMITS = Limits(cpu_s=2.0, memory_bytes=128 << 20)


def test_every_version_restricts_what_it_knows() -> None:
    first = 0x1FFF
    everything = {
        1: (first, 0, 0),
        2: (first | REFER, 0, 0),
        3: (first | REFER | TRUNCATE, 0, 0),
        4: (first | REFER | TRUNCATE, 3, 0),
        5: (0xFFFF, 3, 0),
        6: (0xFFFF, 3, 3),
        7: (0xFFFF, 3, 3),
    }
    assert {abi: known(abi) for abi in everything} == everything
    assert IOCTL_DEV == 0x8000


@pytest.mark.parametrize("abi", range(1, 7))
def test_an_older_version_closes_files_too(abi: int, tmp_path: Path) -> None:
    """This kernel, spoken to as an older one would be."""
    tier_or_skip("landlock_no_fork")
    if abi > kernel_abi():
        pytest.skip(f"Landlock here is version {kernel_abi()}")
    secret = tmp_path / "secret"
    secret.write_text("x")
    for folder in (tmp_path, tmp_path.parent):
        folder.chmod(0o777)
    secret.chmod(0o666)
    program = f"""
import os
done = []
for call, *arguments in ((open, {str(secret)!r}), (open, {str(secret)!r}, "a"), (os.truncate, {str(secret)!r}, 0),
        (os.open, {str(secret)!r}, 3 | os.O_TRUNC), (os.open, os.__file__, os.O_RDONLY | os.O_TRUNC), (os.fork,),
        (os.kill, os.getppid(), 0), (open, "new", "w"), (os.listdir, "/tmp"), (os.mkdir, "new"), (os.chmod, {str(secret)!r}, 0)):
    try: call(*arguments); done.append((call.__name__, *arguments))
    except OSError: pass
print(done)
"""
    plan = Plan(Tier.LANDLOCK_NO_FORK, user_namespace=False, landlock_abi=abi)
    with Box(plan) as box:
        assert box.load(program, LIMITS) is None
        assert box.run(b"").stdout == b"[]\n"
    assert secret.read_text() == "x"


def test_without_proof_there_is_no_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(isolation.os, "kill", lambda pid, number: signals.append((pid, number)))
    ours = isolation.Domains({"landlock": {"abi": 6}, "work": "/"})
    outside = os.pidfd_open(os.getppid())
    try:
        with pytest.raises(RuntimeError, match="does not confine signals"):
            ours._prove(outside, lambda: None)  # a domain that confines nothing
        with pytest.raises(RuntimeError, match="without proof"):
            ours.kill(os.getpid())
    finally:
        os.close(outside)
    assert (-1, signal.SIGKILL) not in signals


def test_the_proof_of_a_parent_does_not_serve_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.os, "kill", lambda pid, number: pytest.fail("it killed"))
    ours = isolation.Domains({"landlock": {"abi": 6}, "work": "/"})
    ours._proved_by = os.getppid()
    with pytest.raises(RuntimeError, match="without proof"):
        ours.kill(1)


@pytest.mark.parametrize(("abi", "reason"), [(0, "Linux 5.13 or newer"), (5, "Linux 6.12 or newer")])
def test_refusals_name_the_remedy(abi: int, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "kernel_abi", lambda: abi)
    tiers._resolve.cache_clear()
    with pytest.raises(SandboxUnavailableError, match=reason) as caught:
        resolve("landlock")
    assert "\n" not in str(caught.value)
    tiers._resolve.cache_clear()


def test_folders_of_killed_judges_are_removed_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock.tempfile, "gettempdir", lambda: str(tmp_path))
    dead = f"{owner.pid_namespace()}.{2**22 + 5}.77"
    for name in (
        f"{landlock.PREFIX}.{dead}.abc",
        f"{landlock.PREFIX}.{owner.mark()}.abc",
        f"{landlock.PREFIX}.1.2.3.abc",
        "other",
    ):
        (tmp_path / name / "work").mkdir(parents=True)
    assert landlock.sweep() == 1
    assert len(list(tmp_path.iterdir())) == 3


def test_ruleset_of_no_kernel_is_an_error() -> None:
    with pytest.raises(OSError, match="landlock_create_ruleset"):
        Ruleset(6, 0, 0, 0)  # nothing to restrict


def test_closing_a_box_ends_a_test_in_the_middle() -> None:
    with Box(tier_or_skip("landlock")) as box:
        assert box.load("import os\nos.fork()\nwhile True: pass", Limits(30.0, 128 << 20)) is None
        box._send(b'T{"arguments": [], "files": [], "collect": []}', [0, 1, 2])
        time.sleep(0.2)
        start = time.monotonic()
    assert time.monotonic() - start < 2
    assert box.zygote.process.returncode == 0
