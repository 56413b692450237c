"""The file that a rollout writes as its episodes end, and goes on with after a kill.

Lines are trajectories (rows, see `trajectories.py`), faults (they have a `reason`) and, where a batching
agent plays, the ends of waves (`wave`): what of a wave was written before its end does not count, since the
replies of a batch may depend on each other. Does not play.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from cef_env.agents.trajectories import Row, read_row
from cef_env.errors import UserError
from cef_env.files import sync_folder

Key = tuple[str, int]
"""Problem and sample."""


class Journal:
    """Appends to `path`, after what is there.

    Args:
        path: of the file; it is made when it is not there.
        waves: whether lines count only with the end of their wave.
    """

    def __init__(self, path: Path, waves: bool) -> None:
        self._waves = waves
        self.done: dict[Key, tuple[int, int]] = {}
        """Where in the file the trajectory of an episode is: offset and size."""
        self.faults: dict[Key, Row] = {}
        """Of episodes that have no trajectory."""
        self._file = open(path, "a+b")  # noqa: SIM115 - closed by `__exit__`
        try:
            self._end = self._read(path)
            self._file.truncate(self._end)
            sync_folder(path.parent)
        except BaseException:
            self._file.close()
            raise

    def _read(self, path: Path) -> int:
        """Takes in the lines that count; returns where they end."""
        end = offset = 0
        pending: list[tuple[Row, int, int]] = []
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):
                break  # the process was killed while it wrote
            try:
                row = read_row(line)
            except ValueError as error:
                raise UserError(f"{path} is damaged at byte {offset}; delete it to start again") from error
            pending.append((row, offset, len(line)))
            offset += len(line)
            if not self._waves or "wave" in row:
                self._take_in(pending)
                pending, end = [], offset
        return end

    def _take_in(self, lines: Sequence[tuple[Row, int, int]]) -> None:
        for row, offset, size in lines:
            if "wave" in row:
                continue
            key = row["problem_id"], row["sample"]
            if "reason" in row:
                self.faults[key] = row
            else:
                self.done[key] = offset, size
                self.faults.pop(key, None)

    def append(self, rows: Iterable[Row]) -> None:
        """Writes rows in one piece, and has them on the disk when it returns."""
        rows = list(rows) + ([{"wave": self._end}] if self._waves else [])
        data, lines = b"", []
        for row in rows:
            line = json.dumps(row, allow_nan=False).encode() + b"\n"
            lines.append((row, self._end + len(data), len(line)))
            data += line
        self._file.write(data)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._end += len(data)
        self._take_in(lines)

    def export(self, path: Path, order: Iterable[Key]) -> None:
        """A file with the trajectories that there are, in this order; whole or absent."""
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with open(temporary, "wb") as out:
                for key in order:
                    if key in self.done:
                        offset, size = self.done[key]
                        self._file.seek(offset)
                        out.write(self._file.read(size))
                out.flush()
                os.fsync(out.fileno())
        except OSError:  # a full disk: do not keep what fills it
            temporary.unlink(missing_ok=True)
            raise
        os.replace(temporary, path)
        sync_folder(path.parent)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def json_lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
