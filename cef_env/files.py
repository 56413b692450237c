"""Files that are either whole or absent, whatever kills the process.

Used by everything that leaves artefacts. Does not know what is in them.
"""

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cef_env.errors import InUseError, UserError


def sync_folder(path: Path) -> None:
    """Makes renames inside `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Writes a whole file or nothing: temporary name, fsync, rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError:  # a full disk, or a folder of that name: do not keep what fills it
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Atomic, with sorted keys and a final newline; refuses NaN, which is not JSON."""
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path, remedy: str) -> Any:
    """The value in a JSON file; `UserError` with the remedy when it is damaged."""
    try:
        return json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON; {remedy}") from error


def cache_folder(name: str) -> Path:
    """A folder of the user's cache: `$XDG_CACHE_HOME/cef-env/NAME`, by default under `~/.cache`.

    It may not exist and may not be writable: a cache only saves time.
    """
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if root.startswith("~"):
        root = "/nonexistent"  # a user without a home keeps nothing
    return Path(root) / "cef-env" / name


def folder_atomic(path: Path, fill: Callable[[Path], object]) -> None:
    """Makes directory `path` by `fill(temporary directory)`; it has its name only when complete."""
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    fill(temporary)
    for entry in temporary.iterdir():
        with open(entry, "rb") as stream:
            os.fsync(stream.fileno())
    sync_folder(temporary)
    if path.exists():
        shutil.rmtree(path)
    os.replace(temporary, path)
    sync_folder(path.parent)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns what reading a row of the wrong form raises into a `UserError` that names the file."""
    try:
        yield
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{path}: a row cannot be read ({error!r}); restore it from a copy or use the version "
            "that wrote it"
        ) from error


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Holds an advisory lock on `path`; `InUseError` when another process holds it.

    The kernel drops the lock when the process ends, however it ends.
    """
    with open(path, "a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InUseError(f"{what} is in use by another process; wait for it to end") from error
        yield
