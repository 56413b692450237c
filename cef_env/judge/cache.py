"""Judge results on disk, so that a program that was judged once is never run again.

A sqlite file in WAL mode: several processes may share it and any of them may be killed at any moment. A file
that cannot be opened, or is damaged, is a mistake to be put right: `UserError`. One that cannot be read or
written for the moment (full disk, lost permission, locked for long) costs only time: there is one warning,
and programs are judged again. Does not decide what identifies a judgement: `judge.py` makes the keys.
"""

import json
import sqlite3
import threading
import warnings
from pathlib import Path

from cef_env.errors import UserError
from cef_env.judge.types import JudgeResult

BUSY_TIMEOUT_S = 30.0


class ResultCache:
    """Key -> JudgeResult in one file. Thread-safe.

    Raises `UserError` when the file cannot be opened or is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._warned = False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")  # a power cut may lose the newest, never corrupt
            self._db.execute("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, result TEXT)")
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    def get(self, key: str) -> JudgeResult | None:
        """The result under `key`, if there is one."""
        try:
            with self._lock:
                row = self._db.execute("SELECT result FROM results WHERE key = ?", (key,)).fetchone()
            return None if row is None else JudgeResult.from_json(json.loads(row[0]))
        except sqlite3.OperationalError as error:
            self._warn(error)
            return None
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            raise self._unusable(error) from error

    def put(self, key: str, result: JudgeResult) -> None:
        """Store a result if possible; the first of two equal keys stays."""
        text = json.dumps(result.to_json())
        try:
            with self._lock:
                self._db.execute("INSERT OR IGNORE INTO results VALUES (?, ?)", (key, text))
        except sqlite3.Error as error:
            self._warn(error)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"judge cache {self.path} is not used: {error}; results are kept nowhere", stacklevel=4
            )

    def _unusable(self, error: Exception) -> UserError:
        damaged = not isinstance(error, sqlite3.OperationalError | OSError)
        remedy = "delete the file" if damaged else "name a file in a folder that can be written to"
        reason = (isinstance(error, OSError) and error.strerror) or error
        return UserError(f"judge cache {self.path} cannot be used ({reason}): {remedy} and run again")
