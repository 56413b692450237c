"""What a box confined by Landlock may open: the interpreter, the system's libraries, a folder of its own.

Chooses paths and makes the folder, on the host; `inside/landlock.py` turns paths into rules.
"""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from cef_env.sandbox import bwrap, owner
from cef_env.sandbox.inside.workspace import empty
from cef_env.sandbox.types import Contents

PREFIX = "cef-box"
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def box_rules(abi: int, contents: Contents, inside: str) -> dict[str, Any]:
    """The rules of a box, for its zygote: `abi`, and lists of paths.

    Args:
        abi: version of Landlock to speak.
        inside: folder of the zygote's source.
    """
    paths = {*bwrap.interpreter_paths(), *bwrap.library_paths()}
    if contents.toolchain:
        paths.update(bwrap.toolchain_paths())
    paths.update(bwrap.package_paths(contents.packages).values())
    programs: list[str] = []
    listed: list[str] = []
    hidden = [path for path in bwrap.site_folders() if path not in paths]
    for path in paths:
        _split(path, hidden, programs, listed)
    return {
        "abi": abi,
        "programs": programs,
        "listed": listed,
        "readable": [inside, "/dev/zero", "/dev/random", "/dev/urandom"],
        "devices": ["/dev/null", "/dev/full"],
    }


def _split(path: str, hidden: list[str], whole: list[str], listed: list[str]) -> None:
    """A rule holds for all below its folder: where something `hidden` lies below, allow its neighbours, and
    of the folder itself only its list of names."""
    if path in hidden:
        return
    if not any(other.startswith(path + "/") for other in hidden):
        whole.append(path)
        return
    listed.append(path)
    for entry in os.scandir(path):
        _split(entry.path, hidden, whole, listed)


def kept_capability() -> int | None:
    """The capability that a user of the tests' own needs to read the interpreter; None when it needs none.

    A Python that lives in root's home can be read by nobody else. What Landlock does not allow stays closed.
    """
    places = [*bwrap.interpreter_paths(), tempfile.gettempdir()]
    if all(os.stat(parent).st_mode & 0o001 for path in places for parent in Path(path).resolve().parents):
        return None
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")
    )
    held = int(line.split()[1], 16)
    return next((cap for cap in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE) if held >> cap & 1), None)


class PrivateFolder:
    """Folders of one box on the host: `work` for the files of its tests, `site` with links to the packages
    that programs may import."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        sweep()
        self._top = tempfile.mkdtemp(prefix=f"{PREFIX}.{owner.mark()}.")
        self.work, self.site = f"{self._top}/work", f"{self._top}/site"
        os.chmod(self._top, 0o711)
        os.mkdir(self.work, 0o700)
        os.mkdir(self.site)
        for folder in bwrap.package_paths(packages).values():
            os.symlink(folder, f"{self.site}/{os.path.basename(folder)}")

    def share(self) -> str:
        """Path for a socket in `work`, which a container may enter, and no other user of this machine."""
        os.chmod(self._top, 0o700)
        os.chmod(self.work, 0o755)
        return f"{self.work}/socket"

    def remove(self) -> None:
        """Remove them with all that is in them. Idempotent."""
        with contextlib.suppress(FileNotFoundError):
            _remove(Path(self._top))


def sweep() -> int:
    """Remove the folders of judges that were killed; returns how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}.*"):
        if owner.is_gone(folder.name.removeprefix(f"{PREFIX}.").rpartition(".")[0]):
            with contextlib.suppress(OSError):  # another judge sweeps too, or its tests are dying
                _remove(folder)
                removed += 1
    return removed


def _remove(folder: Path) -> None:
    empty(str(folder))  # of any depth, where shutil.rmtree gives up
    folder.rmdir()


def processes_of(uid: int) -> int:
    """How many tasks of this user run now: RLIMIT_NPROC counts them all."""
    count = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and entry.stat().st_uid == uid:
                count += len(os.listdir(f"{entry.path}/task"))
    return count
