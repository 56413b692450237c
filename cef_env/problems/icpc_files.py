"""The files of a problem package: only those that really lie inside it, and of a bounded size.

Links that lead out of the package, devices and pipes are refused by name. Does not know what files mean.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import yaml

from cef_env.errors import UserError
from cef_env.problems.fields import Record, first_line

MAX_TEST_BYTES = 512 << 20
"""Of one file of test data."""
MAX_TEXT_BYTES = 4 << 20
"""Of a statement, program or YAML file."""


class PackageFiles:
    """Reads below `root`; paths are relative to it, with `/`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._inside = root.resolve()

    def names(self, folder: str) -> list[str]:
        """All files below a folder, sorted; none when it does not exist. Hidden ones are left out."""
        start = self._checked(folder)
        found: list[str] = []
        for base, folders, files in os.walk(start):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in (*folders, *files):
                path = Path(base, name)
                if path.is_symlink():
                    self._checked(str(path.relative_to(self.root)))
            found += [str(Path(base, name).relative_to(self.root)) for name in files if name[0] != "."]
        return sorted(found)

    def exists(self, name: str) -> bool:
        return self._checked(name).exists()

    def data(self, name: str, limit: int = MAX_TEST_BYTES) -> bytes:
        """The content of a regular file of at most `limit` bytes."""
        path = self._checked(name)
        try:
            if not path.is_file():
                raise UserError(f"{path}: not a regular file" if path.exists() else f"{path}: is missing")
            if path.stat().st_size > limit:
                raise UserError(f"{path}: larger than {limit >> 20} MiB")
            return path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from error

    def text(self, name: str) -> str:
        """A statement, program or configuration, as UTF-8."""
        try:
            return self.data(name, MAX_TEXT_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise UserError(f"{self.root / name}: not UTF-8 at byte {error.start}") from error

    def settings(self, name: str) -> Record:
        """A YAML file that holds a mapping; an empty or absent file is an empty mapping."""
        where = str(self.root / name)
        if not self.exists(name):
            return Record({}, where)
        try:
            value: Any = yaml.safe_load(self.text(name))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UserError(f"{where}: not YAML ({first_line(error)})") from error
        return Record({} if value is None else value, where)

    def stamp(self) -> str:
        """Changes when a file is added, removed or written."""
        digest = hashlib.sha256()
        for base, folders, files in os.walk(self.root):
            folders.sort()
            for name in sorted(files):
                path = Path(base, name)
                status = path.lstat()
                line = f"{path.relative_to(self.root)}\0{status.st_size}\0{status.st_mtime_ns}\n"
                digest.update(line.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def size(self) -> int:
        return sum(
            Path(base, name).lstat().st_size for base, _, files in os.walk(self.root) for name in files
        )

    def _checked(self, name: str) -> Path:
        path = self.root / name
        try:
            inside = path.resolve().is_relative_to(self._inside)
        except (OSError, RuntimeError) as error:
            raise UserError(f"{path}: {first_line(error)}") from error
        if not inside:
            raise UserError(f"{path}: leads out of the package; copy the file into it")
        return path
