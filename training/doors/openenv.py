"""An environment of this package as an OpenEnv server: one episode for each connected session.

    cef serve openenv --env cef/ToolUse-v0 --problems SOURCE --coverage 3

An action is one message of the agent, an observation is what the environment answers. All sessions share one
judge. A fault of the instrument reaches the client as an error, never as a reward, and ends that episode; the
session may reset. A session that ends, however it ends, closes its environment. Needs openenv 0.10.
"""

from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from typing import Any, ClassVar

import gymnasium as gym
from fastapi import FastAPI
from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from pydantic import Field

from cef_env.agents.environments import find_spec, make_env
from cef_env.envs.text import CutText
from cef_env.errors import InstrumentError
from cef_env.problems import ProblemSet, parse_coverage

SPLIT = "problems"
"""The one split of the task routes: the problems that have an R_k at the coverage of the server."""


class MessageAction(Action):
    """One message of the agent."""

    message: str = Field(description="The whole message: tool calls, or the answer, as the problem asks.")
    cut: bool = Field(default=False, description="Whether the token budget cut the message.")


class MessageObservation(Observation):
    """What the environment answers; `metadata` is its `info`, with the outcome at the end."""

    text: str = Field(description="The next message to the agent.")


class CodingState(State):
    """Of an episode; never anything of a hidden test."""

    problem_id: str | None = None


class CodingEnvironment(Environment[MessageAction, MessageObservation, CodingState]):
    """One session, with an environment that `make` makes; `ids` are the problems that there are."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(
        self, make: Callable[[], gym.Env[str, str]], ids: tuple[str, ...], metadata: EnvironmentMetadata
    ) -> None:
        super().__init__()
        self._env = make()
        self._ids = ids
        self._metadata = metadata
        self._state = CodingState()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> MessageObservation:
        """A new episode; options are those of the environment's `reset`, such as `problem_id`.

        `split` and `index` of the task routes pick a problem, too. An unknown option is an error.
        """
        if options.pop("split", SPLIT) != SPLIT:
            raise ValueError(f"there is one split, {SPLIT!r}")
        index = options.pop("index", None)
        if index is not None:
            options["problem_id"] = self.get_task(SPLIT, index)["problem_id"]
        text, info = self._env.reset(seed=seed, options=options)
        self._state = CodingState(episode_id=episode_id, problem_id=info["problem_id"])
        return MessageObservation(text=text, metadata=info)

    def step(self, action: MessageAction, timeout_s: float | None = None, **_: Any) -> MessageObservation:
        """What follows from a message. `timeout_s` is ignored: tools and judge have limits of their own."""
        message = CutText(action.message) if action.cut else action.message
        try:
            text, reward, terminated, truncated, info = self._env.step(message)
        except InstrumentError as error:
            raise InstrumentError(f"instrument fault, this episode has no reward: {error}") from error
        self._state.step_count += 1
        over = terminated or truncated
        return MessageObservation(text=text, done=over, reward=float(reward) if over else None, metadata=info)

    @property
    def state(self) -> CodingState:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        return self._metadata

    def list_splits(self) -> list[str]:
        return [SPLIT]

    def num_tasks(self, split: str) -> int:
        return len(self._ids) if split == SPLIT else 0

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return [self.get_task(split, index) for index in range(self.num_tasks(split))]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """The id of a problem: what `reset` takes. No statement and no test."""
        if not 0 <= index < self.num_tasks(split):
            raise IndexError(f"index {index}: split {split!r} has {self.num_tasks(split)} tasks")
        return {"problem_id": self._ids[index]}

    def close(self) -> None:
        self._env.close()


def app(
    env_id: str,
    problems: ProblemSet,
    coverage: object = None,
    sessions: int = 64,
    options: Mapping[str, Any] | None = None,
) -> FastAPI:
    """The server's application; `options` are arguments of the environment.

    Raises `UserError` when no environment can be made of them.
    """
    k = parse_coverage(coverage)
    make_env(env_id, problems, k, options).close()  # a mistake shows now, not in the first session
    ids = tuple(id_ for id_ in problems.ids if k is None or problems.smallest_level(id_) <= k)
    spec = find_spec(env_id)
    metadata = EnvironmentMetadata(
        name=spec.id,
        description=f"{len(ids)} problems of {problems.name}, coverage {'inf' if k is None else k}",
        version=str(spec.version),
    )
    session = partial(CodingEnvironment, partial(make_env, env_id, problems, k, options), ids, metadata)
    update_wrapper(session, CodingEnvironment)  # OpenEnv names it in errors
    return create_app(
        session,
        MessageAction,
        MessageObservation,
        env_name=spec.name,
        max_concurrent_envs=sessions,
        state_cls=CodingState,
    )
