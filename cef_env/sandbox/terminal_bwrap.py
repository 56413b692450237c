"""The bubblewrap command line of a terminal, and what its shells are told: the system's tools, read-only.

Unlike a box (see `bwrap.py`) a terminal has the host's commands and compilers and its own /proc. It has no
network, no third-party Python packages (problems and their hidden tests may be among them), none of the
host's other files. Does not start anything: see `pty_line.py`.
"""

import contextlib
import functools
import os
import shutil
import sys
from glob import glob
from pathlib import Path
from typing import Any

from cef_env.errors import SandboxUnavailableError
from cef_env.sandbox import bwrap, seccomp
from cef_env.sandbox.inside import terminal as inside

WORK = inside.FOLDERS["work"]
PYTHON_NAMES = "/cef/bin"
"""Where `python3` and `python` stand for the interpreter that judges programs."""
DEVICES = ("null", "zero", "full", "random", "urandom")
# Not all of /usr: applications and their data are often under /usr/src or /usr/local.
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "include", "share")
_LOCAL = ("bin", "sbin", "lib", "include")
_CONFIGURATION = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "terminfo")
# Stdin is the socket to the host: some shells know no descriptors above 9. What pid 1 has to say itself
# ("Killed") is not part of any command's output.
_INIT = """
trap : HUP INT QUIT TERM
exec 3>&2 2>/dev/null
while :; do
    ( exec "$@" 2>&3 3>&- )
    echo "$?" >&0
    read -r go || exit
done
"""


@functools.cache
def bash() -> str:
    """Path of bash; `SandboxUnavailableError` when there is none."""
    path = shutil.which("bash", path="/usr/bin:/bin:/usr/local/bin")
    if path is None:
        raise SandboxUnavailableError("no bash: install the package bash of the system")
    return os.path.realpath(path)


def memory_file(data: bytes, stack: contextlib.ExitStack) -> int:
    """A descriptor to read `data` from; closed with `stack`."""
    fd = os.memfd_create("data", os.MFD_CLOEXEC)
    stack.callback(os.close, fd)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def command(uid: int | None, stack: contextlib.ExitStack) -> tuple[list[str], list[int]]:
    """Argument vector that runs pid 1 of a terminal, and the descriptors that bubblewrap needs besides.

    Args:
        uid: of the shells; None: ours, in a user namespace.
        stack: closes the descriptors.
    """
    user = os.geteuid() if uid is None else uid
    group = os.getegid() if uid is None else uid
    passwd = f"root:x:0:0:root:/root:/bin/sh\nuser:x:{user}:{group}:user:{WORK}:/bin/bash\n"
    texts = {"/etc/passwd": passwd, "/etc/group": f"root:x:0:\nuser:x:{group}:\n"}
    fds = [memory_file(text.encode(), stack) for text in texts.values()]
    arguments = list(_fixed_arguments(uid is None))
    for path, fd in zip(texts, fds):
        arguments += ["--perms", "0644", "--file", str(fd), path]
    arguments += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK, "--", "/bin/sh", "-c"]
    arguments += [_INIT, "sh", *_shell_command()]
    return arguments, fds


def _shell_command() -> list[str]:
    start = f"import sys; sys.path.insert(0, {bwrap.HOME!r}); from inside import terminal; terminal.main()"
    return [bwrap.interpreter(), "-S", "-s", "-P", "-E", "-B", "-c", start]


@functools.cache
def _fixed_arguments(user_namespace: bool) -> tuple[str, ...]:
    """All that does not change from one terminal to the next."""
    arguments = [bwrap.find_bwrap(), "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    arguments += ["--unshare-cgroup-try", "--as-pid-1", "--die-with-parent", "--new-session"]
    arguments += ["--hostname", "box", "--clearenv"]
    if user_namespace:
        arguments += ["--unshare-user"]
    capabilities = (
        ["SYS_ADMIN"] if user_namespace else ["SYS_ADMIN", "SETUID", "SETGID", "CHOWN", "DAC_OVERRIDE"]
    )
    for name in capabilities:
        arguments += ["--cap-add", f"CAP_{name}"]
    links, bound = _system()
    ours = bwrap.interpreter_paths()
    bound = bwrap.without_nested({*bound, *ours})
    parents = {str(parent) for path in bound for parent in Path(path).parents} | {"/etc", "/cef"}
    for parent in sorted(parents - {"/"} - links.keys()):
        arguments += ["--dir", parent]
    for path in bound:
        arguments += ["--ro-bind", path, path]
    for link, target in links.items():
        arguments += ["--symlink", target, link]
    for folder in _packages():
        if any(folder.startswith(path + "/") for path in bound):
            arguments += ["--tmpfs", folder, "--remount-ro", folder]
    arguments += ["--ro-bind", str(Path(__file__).with_name("inside")), f"{bwrap.HOME}/inside"]
    arguments += ["--dir", PYTHON_NAMES]
    for name in ("python3", "python"):
        arguments += ["--symlink", bwrap.interpreter(), f"{PYTHON_NAMES}/{name}"]
    arguments += ["--proc", "/proc", "--tmpfs", "/dev"]
    for name in DEVICES:
        arguments += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        arguments += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    arguments += ["--symlink", "/proc/self/fd", "/dev/fd"]
    for folder in (inside.ROOT, *inside.FOLDERS.values()):
        arguments += ["--dir", folder]
    return tuple(arguments)


def _system() -> tuple[dict[str, str], list[str]]:
    """Links at the top of the file system, and the system's files and folders to bind."""
    tops = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
    links = {f"/{name}": os.readlink(f"/{name}") for name in tops if os.path.islink(f"/{name}")}
    bound = [f"/{name}" for name in tops if f"/{name}" not in links]
    bound += [f"/usr/{name}" for name in _SYSTEM] + [f"/usr/local/{name}" for name in _LOCAL]
    bound += [f"/usr/{os.uname().machine}-linux-gnu"] + [f"/etc/{name}" for name in _CONFIGURATION]
    # bash may be elsewhere, and a bound link to it would not be enough.
    return links, [path for path in (*bound, bash()) if os.path.exists(path) and not os.path.islink(path)]


def _packages() -> list[str]:
    """Folders of third-party packages of every Python that is bound."""
    found = set()
    for prefix in {"/usr", "/usr/local", sys.base_prefix, sys.base_exec_prefix}:
        for name in ("site-packages", "dist-packages"):
            found.update(glob(f"{prefix}/lib*/python3*/{name}"))
    return sorted({os.path.realpath(folder) for folder in found})


def settings(uid: int | None) -> dict[str, Any]:
    """What every shell of a terminal is told (see `inside/terminal.py`)."""
    return {
        "uid": uid,
        "bash": bash(),
        "seccomp": _filter(),
        "environment": {
            "PATH": f"{PYTHON_NAMES}:/usr/local/bin:/usr/bin:/bin",
            "HOME": WORK,
            "USER": "user",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    }


@functools.cache
def _filter() -> bytes:
    return seccomp.deny_filter(os.uname().machine)
