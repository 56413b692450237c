"""What the kernel and the tools of this machine offer to a sandbox, as lines for people.

Reads and probes, changes nothing, needs no privilege. Does not decide which isolation tier is used: that is
found by starting a box (`cef_env.sandbox.tiers`). Linux only, as is the sandbox.

    from cef_env.machine import features
    for name, text in features().items(): print(name, text)
"""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cef_env.errors import SandboxUnavailableError
from cef_env.sandbox.bwrap import find_bwrap
from cef_env.sandbox.cgroups import find_parent

LANDLOCK_CREATE_RULESET, LANDLOCK_VERSION_FLAG = 444, 1
TOOL_TIMEOUT_S = 10.0
_USER_NAMESPACE_SWITCHES = {
    "user/max_user_namespaces": "0",
    "kernel/unprivileged_userns_clone": "0",
    "kernel/apparmor_restrict_unprivileged_userns": "1",
}
"""Files under /proc/sys, and the value that refuses user namespaces to ordinary users."""
_UNSHARE_USER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(0 if libc.unshare(0x10000000) == 0 else ctypes.get_errno())
"""


def features() -> dict[str, str]:
    """Name -> what was found. A probe that fails says so in its own line."""
    probes: dict[str, Callable[[], str]] = {
        "system": _system,
        "kernel": lambda: f"{os.uname().sysname} {os.uname().release}, {os.uname().machine}",
        "Python": lambda: (
            f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
        ),
        "cores": _cores,
        "memory": _memory,
        "user": lambda: "root" if os.geteuid() == 0 else f"uid {os.geteuid()}, no root",
        "user namespaces": _user_namespaces,
        "control groups": _control_groups,
        "seccomp": _seccomp,
        "Landlock": _landlock,
        "bubblewrap": _bubblewrap,
        "Docker": _docker,
        "C++ compiler": lambda: _version_of("g++", "install g++ to judge C++ programs"),
    }
    found = {}
    for name, probe in probes.items():
        try:
            found[name] = probe()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            found[name] = f"cannot be found out: {error}"
    return found


def _system() -> str:
    release = platform.freedesktop_os_release()
    container = " (in a container)" if Path("/.dockerenv").exists() else ""
    return release.get("PRETTY_NAME", release.get("NAME", "Linux")) + container


def _cores() -> str:
    usable, all_ = len(os.sched_getaffinity(0)), os.cpu_count()
    return f"{usable}" if usable == all_ else f"{usable} of {all_} usable"


def _memory() -> str:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total, free = (int(fields[name].split()[0]) / (1 << 20) for name in ("MemTotal", "MemAvailable"))
    return f"{total:.1f} GiB, {free:.1f} available"


def _user_namespaces() -> str:
    command = [sys.executable, "-I", "-S", "-c", _UNSHARE_USER]
    status = subprocess.run(command, check=False, timeout=TOOL_TIMEOUT_S, capture_output=True).returncode
    limits = []
    for name, refusing in _USER_NAMESPACE_SWITCHES.items():
        path = Path("/proc/sys") / name
        if path.exists() and (value := path.read_text().strip()) == refusing:
            limits.append(f"{path.name}={value}")
    text = "can be made" if status == 0 else f"refused: {os.strerror(status) if status > 0 else 'killed'}"
    return f"{text}; limited by {', '.join(limits)}" if limits else text


def _control_groups() -> str:
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(","), path))
    found = []
    writable = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point, (kind, _, options) = Path(before.split()[4]), after.split(maxsplit=2)
        if kind == "cgroup2":
            folder = point / own.get("", "/").lstrip("/")
            file = folder / "cgroup.controllers"
            controllers = ", ".join(file.read_text().split() if file.exists() else []) or "no controllers"
            access = "writable" if os.access(folder, os.W_OK) else "not writable"
            found.append(f"version 2 ({controllers}: {access})")
        elif kind == "cgroup" and os.access(point, os.W_OK):
            writable += [name for name in options.split(",") if name in ("memory", "pids", "cpuacct")]
    if any(name for name in own if name and not name.startswith("name=")):
        found.insert(0, f"version 1 (writable: {', '.join(sorted(set(writable))) or 'none that count'})")
    parent = find_parent()
    use = "no group can be made for tests" if parent is None else f"tests use version {parent.version}"
    return "; ".join([*(found or ["none mounted"]), use])


def _seccomp() -> str:
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    if not actions.exists():
        return "not in this kernel"
    status = Path("/proc/self/status").read_text()
    filtered = "Seccomp:\t2" in status
    return "filters can be set" + ("; this process is itself under one" if filtered else "")


def _landlock() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    number, flag = ctypes.c_long(LANDLOCK_CREATE_RULESET), ctypes.c_uint32(LANDLOCK_VERSION_FLAG)
    abi = libc.syscall(number, None, ctypes.c_size_t(0), flag)
    if abi < 0:
        return f"not available: {os.strerror(ctypes.get_errno())}"
    return f"ABI {abi}"


def _bubblewrap() -> str:
    try:
        path = find_bwrap()
    except SandboxUnavailableError as error:
        return str(error)
    return f"{_version_of(path)} ({path})"


def _docker() -> str:
    try:
        import docker
    except ImportError:
        return "Python package docker is missing (pip install 'cef-env[docker]')"
    try:
        client = docker.from_env(timeout=TOOL_TIMEOUT_S)
        try:
            return f"engine {client.version()['Version']}"
        finally:
            client.close()
    except Exception as error:  # noqa: BLE001 - docker and the HTTP library below it raise many kinds
        place = os.environ.get("DOCKER_HOST", "the usual socket")
        return f"no engine answers at {place} ({type(error).__name__})"


def _version_of(tool: str, missing: str = "") -> str:
    """First line of `tool --version`."""
    if shutil.which(tool) is None:
        return f"not found: {missing}"
    command = [tool, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=True)
    return done.stdout.splitlines()[0]
