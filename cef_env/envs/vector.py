"""Many environments whose steps overlap: one thread each, since a step waits for judge or sandbox processes.

    envs = gym.make_vec("cef/ToolUse-v0", num_envs=64, coverage=3, autoreset_mode="Disabled")

`gym.make_vec` comes here by default; `vectorization_mode="sync"` and `"async"` (the latter with
`vector_kwargs={"shared_memory": False}`) work as well, and take `wrappers`. Does not batch text into arrays:
an observation of the batch is a tuple of strings.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from cef_env.envs.agentic import AgenticEnv
from cef_env.envs.base import checked_options
from cef_env.envs.crew import Crew
from cef_env.envs.reasoning import ReasoningEnv
from cef_env.envs.repair import RepairEnv
from cef_env.envs.tool_use import ToolUseEnv
from cef_env.envs.turns import positive
from cef_env.errors import InstrumentError, UserError
from cef_env.problems import load

Batch = tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]
MODES = {mode.value: mode for mode in AutoresetMode}


class VectorStepError(InstrumentError):
    """The instrument failed in some environments of a step; the others have made theirs."""

    def __init__(self, faults: dict[int, InstrumentError], batch: Batch) -> None:
        first = next(iter(faults))
        super().__init__(f"environment {first} ({len(faults)} in all): {faults[first]}")
        self.faults = faults
        """By the number of the environment."""
        self.batch = batch
        """What `step` would have returned with `on_fault="mark"`: nothing of the others is lost."""


@dataclass(slots=True)
class _Stepped:
    """What one environment did in one step."""

    observation: str = ""
    reward: float = float("nan")
    terminated: bool = False
    truncated: bool = False
    infos: list[dict[str, Any]] = field(default_factory=list)
    error: Exception | None = None


class ThreadVectorEnv(SyncVectorEnv):
    """Steps its environments in threads and waits for all of them.

    Args:
        env_fns: one function per environment that makes it.
        autoreset_mode: "NextStep" (the step after the end resets and ignores its action), "SameStep" (the
            end resets at once; `infos["final_obs"]` and `infos["final_info"]` keep the last step), or
            "Disabled" (`reset(options={"reset_mask": ...})` resets those of a boolean array).
        on_fault: what an `InstrumentError` of an environment leads to, after the others have ended their
            step: "raise" a `VectorStepError`, or "mark" it in what is returned. Marked is: reward NaN,
            truncated, and `infos["instrument_fault"]` with the message. Either way that episode is over.
        step_timeout_s: seconds that an environment may take for a step (or a reset); None sets no limit. One
            over its time is a fault of the instrument: it is left behind, and its next reset makes another.

    A mistake (an action that is not a str, a step after the end) is raised, too, after the others have ended
    their step; actions are checked before any environment steps. `reset` always raises.

    `reset` takes the options of the environments; `problem_id` may be a list with one id for each.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[str, str]]],
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        on_fault: str = "raise",
        step_timeout_s: float | None = None,
    ) -> None:
        if step_timeout_s is not None:
            positive("step_timeout_s", step_timeout_s, whole=False)
        if not isinstance(autoreset_mode, AutoresetMode) and autoreset_mode not in MODES:
            raise UserError(f"autoreset_mode={autoreset_mode!r}: use {', '.join(MODES)}")
        if on_fault not in ("raise", "mark"):
            raise UserError(f"on_fault={on_fault!r}: use raise or mark")
        if not env_fns:
            raise UserError("num_envs=0: a vector needs at least one environment")
        super().__init__(env_fns, autoreset_mode=autoreset_mode)
        self.on_fault = on_fault
        self._over = np.zeros(self.num_envs, dtype=np.bool_)
        self.step_timeout_s = step_timeout_s
        self._make = list(env_fns)
        self._crew = Crew(self.num_envs, "cef-env")
        self._gone: set[int] = set()
        """Environments that were left behind in a step."""
        self._texts = [""] * self.num_envs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Reset all environments, or those of `options["reset_mask"]`; the others keep their observation.

        Environment i gets the seed `seed + i`, or the i-th of a list.
        """
        options = checked_options(options)
        mask = self._mask(options.pop("reset_mask", None))
        seeds: list[int | None]
        if seed is None or isinstance(seed, int):
            seeds = [None if seed is None else seed + index for index in range(self.num_envs)]
        else:
            seeds = self._for_each("seed", seed)
        each = self._options(options)
        chosen = [int(i) for i in np.flatnonzero(mask)]
        self._over[mask] = True  # until it is reset

        def work(index: int) -> _Stepped:
            observation, info = self.envs[index].reset(seed=seeds[index], options=each[index])
            return _Stepped(observation, infos=[info])

        stepped = self._all(work, chosen)
        for done in stepped.values():
            if done.error is not None:
                raise done.error
        infos: dict[str, Any] = {}
        for index, done in stepped.items():
            self._texts[index], self._over[index] = done.observation, False
            infos = self._add_info(infos, done.infos[0], index)
        return tuple(self._texts), infos

    def _mask(self, mask: Any) -> np.ndarray:
        if mask is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        array = np.asarray(mask)
        if array.dtype != np.bool_ or array.shape != (self.num_envs,) or not array.any():
            raise UserError(
                f"reset option reset_mask: give {self.num_envs} booleans, at least one of them true"
            )
        return array

    def _options(self, options: dict[str, Any]) -> list[dict[str, Any]]:
        """The options of each environment."""
        ids = options.get("problem_id")
        if ids is None or isinstance(ids, str):
            return [options] * self.num_envs
        ids = self._for_each("reset option problem_id", ids)
        return [{**options, "problem_id": id_} for id_ in ids]

    def _for_each(self, name: str, values: Any) -> list[Any]:
        """A list with one value for each environment."""
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise UserError(f"{name} of type {type(values).__name__}: give {self.num_envs} in a list")
        values = list(values)
        if len(values) != self.num_envs:
            raise UserError(f"{name}: {len(values)} for {self.num_envs} environments; give one for each")
        return values

    def step(self, actions: Sequence[str]) -> Batch:
        """One message to each environment; those that only reset ignore theirs."""
        actions = self._for_each("actions", actions)
        for index, action in enumerate(actions):
            if not isinstance(action, str):
                raise UserError(f"actions[{index}] of type {type(action).__name__}: an action is a str")
        stuck = np.flatnonzero(self._over)
        if self.autoreset_mode == AutoresetMode.DISABLED and stuck.size:
            raise gym.error.ResetNeeded(
                f"the episode of environment {stuck[0]} is over; call reset(options={{'reset_mask': ...}})"
            )
        results = self._all(lambda index: self._step(index, actions[index]), range(self.num_envs))
        faults: dict[int, InstrumentError] = {}
        mistakes: list[Exception] = []
        infos: dict[str, Any] = {}
        for index, done in results.items():
            if isinstance(done.error, InstrumentError):
                faults[index] = done.error
                done.truncated = not done.terminated
                done.infos.append({"instrument_fault": str(done.error)})
            elif done.error is not None:
                mistakes.append(done.error)
                continue
            ended = done.terminated or done.truncated
            self._over[index] = done.error is not None or (ended and not self._same_step)
            self._texts[index] = done.observation
            for info in done.infos:
                infos = self._add_info(infos, info, index)
        if mistakes:
            raise mistakes[0]
        batch = (
            tuple(self._texts),
            np.array([done.reward for done in results.values()], dtype=np.float64),
            np.array([done.terminated for done in results.values()], dtype=np.bool_),
            np.array([done.truncated for done in results.values()], dtype=np.bool_),
            infos,
        )
        if faults and self.on_fault == "raise":
            raise VectorStepError(faults, batch)
        return batch

    @property
    def _same_step(self) -> bool:
        return self.autoreset_mode == AutoresetMode.SAME_STEP

    def _step(self, index: int, action: str) -> _Stepped:
        env = self.envs[index]
        if self._over[index]:
            observation, info = env.reset()
            return _Stepped(observation, 0.0, infos=[info])
        observation, reward, terminated, truncated, info = env.step(action)
        done = _Stepped(observation, float(reward), terminated, truncated, [info])
        if (terminated or truncated) and self._same_step:
            done.infos = [{"final_obs": observation, "final_info": info}]
            done.observation = ""
            try:
                done.observation, info = env.reset()
                done.infos.append(info)
            except InstrumentError as error:  # of the next episode; this one has its reward
                done.error = error
        return done

    def _all(self, work: Callable[[int], _Stepped], indices: Sequence[int]) -> dict[int, _Stepped]:
        """`work` for all indices at once; an error of one is kept, so that the others end."""
        if self.closed:
            raise gym.error.ClosedEnvironmentError("the environments are closed; make them again")
        for index in self._gone.intersection(indices):
            self.envs[index] = self._make[index]()
            self._gone.discard(index)
        calls = {
            index: self._crew.submit(partial(work, index), self.step_timeout_s, self.envs[index].close)
            for index in indices
        }
        late = self._crew.all(calls.values())
        stepped = {}
        for index, call in calls.items():
            if call in late:
                self._gone.add(index)
                error: Any = InstrumentError(f"a step took longer than {self.step_timeout_s:g} s")
            else:
                error = call.future.exception()
            stepped[index] = call.future.result() if error is None else _Stepped(error=error)
        return stepped

    def close_extras(self, **kwargs: Any) -> None:
        """End all environments, after the steps in progress; one that was left behind ends with its step."""
        self._crew.close()
        self.envs = [env for index, env in enumerate(self.envs) if index not in self._gone]
        super().close_extras(**kwargs)


def make_threads(
    env_class: Callable[..., gym.Env[str, str]],
    num_envs: int = 1,
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    on_fault: str = "raise",
    step_timeout_s: float | None = None,
    **arguments: Any,
) -> ThreadVectorEnv:
    """What `gym.make_vec` calls: `num_envs` environments with the same arguments, which share one source."""
    problems = load(arguments.pop("problems", "builtin"))
    make = partial(env_class, problems=problems, **arguments)
    return ThreadVectorEnv([make] * num_envs, autoreset_mode, on_fault, step_timeout_s)


reasoning = partial(make_threads, ReasoningEnv)
tool_use = partial(make_threads, ToolUseEnv)
agentic = partial(make_threads, AgenticEnv)
repair = partial(make_threads, RepairEnv)
