"""One episode of an environment, as a trainer sees it: it never raises for a fault of the instrument.

Blocking; runs in a thread. Knows no tokens and no trainer (see `executor.py`). A fault ends the episode with
reward 0 and `cef_error` 1; such an episode has no outcome, so that

    rate of an outcome = mean of its log / mean of `cef_judged`

holds in every average that a trainer makes. So do, with online fixing,

    original pass rate = mean of `cef_original_correct` / mean of `cef_original_judged`
    fix rate = mean of `cef_repair_correct` / mean of `cef_repair_judged`

An episode that was to repair and got a problem alone, since the first answer left nothing to repair, counts
in neither: its problem is likely one that the model can solve.
"""

import logging
import threading
from dataclasses import replace
from typing import Any

from cef_env.envs.repair import REPAIRABLE
from cef_env.errors import InstrumentError
from cef_env.judge import FormatErrorCause, JudgeResult, Outcome
from cef_env.training.openrlhf.environments import Env, Environments, Label

LOGS = (
    "cef_error",
    "cef_judged",
    *(f"cef_{outcome}" for outcome in Outcome),
    *(f"cef_{cause}" for cause in FormatErrorCause),
    "cef_compile_error",
    "cef_original_judged",
    "cef_original_correct",
    "cef_repair_asked",
    "cef_repair_judged",
    "cef_repair_correct",
    "cef_coverage_reached",
    "cef_turns",
    "cef_tool_calls",
)
"""The logs of every episode: 0 or 1, but for the last three."""
THREADS = 256
"""Episodes that step at once; they mostly wait for judge, tool or terminal."""
LEAST_TURN = 32
"""Tokens that must be left for another message, or the episode ends."""
MOST_FAULTS = 64
"""Faults in a row after which training stops: it would be training on nothing."""

_log = logging.getLogger(__name__)


class Faults:
    """Counts faults in a row. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._row = 0

    def count(self, fault: str | None) -> None:
        """Tell how an episode went; `InstrumentError` when too many in a row had a fault."""
        with self._lock:
            self._row = 0 if fault is None else self._row + 1
            if self._row >= MOST_FAULTS:
                raise InstrumentError(f"{self._row} episodes in a row failed, the last with: {fault}")


class Episode:
    """From `start` to `end`; each may be called from another thread, one at a time."""

    def __init__(self, environments: Environments, label: Label) -> None:
        self.label = label
        self.reward = 0.0
        self.fault: str | None = None
        """Why the instrument failed, in one line."""
        self.done = False
        self._environments = environments
        self._lock = threading.Lock()
        self._env: Env | None = None
        self._turns = 0
        self._info: dict[str, object] = {}
        self._failed: tuple[str, JudgeResult] | None = None

    def start(self) -> str:
        """The first observation; "" after a fault.

        Raises `UserError` when no environment can be made: the launch is wrong, not this episode.
        """
        with self._lock:
            self._env = self._environments.lend(self.label)
            try:
                observation, self._info = self._env.reset(options=self.label.options)
                return observation
            except Exception as error:  # noqa: BLE001 (the trainer must not see it)
                return self._fail(error)

    def step(self, message: str) -> str:
        """What follows from a message of the model; "" when the episode is over."""
        with self._lock:
            if self.done or self._env is None:
                return ""
            self._turns += 1
            try:
                observation, reward, terminated, truncated, self._info = self._env.step(message)
            except Exception as error:  # noqa: BLE001 (the trainer must not see it)
                return self._fail(error)
            self.done = terminated or truncated
            self.reward += float(reward)
            inner: Any = self._env.unwrapped
            if self.done and inner.result.outcome in REPAIRABLE:
                self._failed = inner.program, inner.result
            return "" if self.done else observation

    def fail(self, reason: str) -> None:
        """End the episode by a fault that was found outside of it."""
        self.fault, self.done, self.reward = reason, True, 0.0

    @property
    def failure(self) -> Label | None:
        """The label of an episode that repairs this one's program; None when there is none that failed."""
        if self._failed is None or self.fault is not None:
            return None
        program, result = self._failed
        return replace(self.label, program=program, result=result.to_json())

    def end(self) -> None:
        """Give the environment back; one that did not reach its end is closed with all that it holds."""
        with self._lock:
            env, self._env = self._env, None
            if env is not None:
                whole = "outcome" in self._info and self.fault is None
                self._environments.give_back(self.label, env, keep=whole)

    def logs(self) -> dict[str, float]:
        """A number for each of `LOGS`. An episode that was cut before its end ran out of tokens."""
        if self.fault is not None:
            told = {"cef_error": 1.0}
        else:
            cut = {"outcome": Outcome.FORMAT_ERROR, "format_error": FormatErrorCause.OUT_OF_TOKENS}
            info = self._info if "outcome" in self._info else cut
            told = {"cef_judged": 1.0, f"cef_{info['outcome']}": 1.0}
            if info["format_error"]:
                told[f"cef_{info['format_error']}"] = 1.0
            told["cef_compile_error"] = float(bool(info.get("compile_error")))
            if self.label.program is not None or not self.label.fixing:
                part = "original" if self.label.program is None else "repair"
                told[f"cef_{part}_judged"] = 1.0
                told[f"cef_{part}_correct"] = float(info["outcome"] == Outcome.CORRECT)
            told["cef_coverage_reached"] = float(info.get("coverage_reached", 0))  # type: ignore[arg-type]
        told["cef_repair_asked"] = float(self.label.fixing)
        told["cef_turns"] = float(self._turns)
        told["cef_tool_calls"] = float(self._info.get("tool_calls", 0))  # type: ignore[arg-type]
        return {name: told.get(name, 0.0) for name in LOGS}

    def _fail(self, error: Exception) -> str:
        self.fail(" ".join(f"{type(error).__name__}: {error}".split())[:300])
        _log.warning("episode on %s has no reward: %s", self.label.problem_id, self.fault)
        return ""
