"""Plays episodes in threads: environments wait for judge and sandbox processes, agents for servers.

Who waits for whom, what may take how long, and whose environment is closed when. Does not keep anything: see
`rollout.py` and `record.py`.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym

from cef_env.agents.base import Agent, BatchAgent, Message, Reply, Trajectory, checked
from cef_env.agents.episode import Episode, EpisodeTimeoutError, Fault, Job, Limits
from cef_env.agents.terminal_agent import describe
from cef_env.envs.crew import Call, Crew
from cef_env.errors import CefError, InstrumentError, UserError

Env = gym.Env[str, str]
Envs = Sequence[Env] | Callable[[], Env]
OnEnd = Callable[[int, Trajectory], None]
OnFault = Callable[[Fault, InstrumentError], None]


class Player:
    """Plays jobs with an agent, in environments that it makes and closes, or in those that it is given.

    A context manager. For several calls of `play` that share environments; otherwise see `rollout`.
    """

    def __init__(self, envs: Envs, agent: Agent, seed: int, limits: Limits) -> None:
        self.agent = agent
        self.seed = seed
        self.limits = limits
        self._given = None if callable(envs) else list(envs)
        self._factory = envs if callable(envs) else None
        self._making = threading.Lock()
        self._open: set[Env] = set()
        """That were made here, without those that hang."""
        self._free: list[Env] = []
        self._held: dict[Call, Episode] = {}
        """Whose call is in progress."""
        self._closing: list[Call] = []
        self._crew = Crew(limits.concurrency, "cef-episode")

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):  # interrupted: waits for nobody
            held = {episode.env for call, episode in self._held.items() if not call.future.done()}
            self._crew.close(wait=False)
            for env in self._open - held:
                env.close()
            return
        self._crew.all(self._held)
        last = [self._crew.submit(env.close, self.limits.step_timeout_s) for env in self._open]
        late = self._crew.all([*self._closing, *last])
        self._crew.close()
        for call in last:
            if kind is None and call not in late:
                call.future.result()

    def play(self, jobs: Sequence[Job], on_end: OnEnd, on_fault: OnFault) -> None:
        """Plays all jobs. The functions are called from this thread, as episodes end."""
        if not isinstance(self.agent, BatchAgent):
            self._free_running(jobs, on_end, on_fault)
            return
        size = len(jobs) if self._given is not None else self.limits.concurrency
        for start in range(0, len(jobs), size or 1):
            wave = [Episode(job) for job in jobs[start : start + size]]
            while wave:  # those that the instrument failed make a wave again
                wave = self._lockstep(wave, self.agent, on_end, on_fault)

    def _free_running(self, jobs: Sequence[Job], on_end: OnEnd, on_fault: OnFault) -> None:
        """Each episode goes on as soon as it can."""
        waiting = deque(Episode(job) for job in jobs)
        while waiting or self._held:
            while waiting and len(self._held) < self.limits.concurrency:
                episode = waiting.popleft()
                self._submit(episode, partial(self._begin, episode))
            ended, late = self._crew.next(self._held)
            for call in [*ended, *late]:
                episode, error = self._account(call, call in late)
                if error is not None:
                    again = self._failed(episode, error, on_fault)
                    waiting.extendleft([again] if again else [])
                elif episode.done:
                    self._end(episode, on_end)
                elif isinstance(reply := call.future.result(), Reply):
                    self._submit(episode, partial(self._step, episode, reply))
                else:
                    self._submit(episode, partial(self._act, episode), in_env=False)

    def _lockstep(
        self, wave: Sequence[Episode], agent: BatchAgent, on_end: OnEnd, on_fault: OnFault
    ) -> list[Episode]:
        """All conversations that are open are answered together; returns the episodes to play again."""
        again: list[Episode] = []
        # The first wave has the seed itself, the others ones far from it.
        seed = (self.seed + 1_000_003 * wave[0].job.index) % 2**63

        def do(works: Sequence[tuple[Episode, Callable[[], Any]]]) -> list[Episode]:
            """All at once; returns the episodes that go on."""
            calls = [self._submit(episode, work) for episode, work in works]
            late = self._crew.all(calls)
            going = []
            for episode, error in [self._account(call, call in late) for call in calls]:
                if error is not None:
                    fail(episode, error)
                elif episode.done:
                    self._end(episode, on_end)
                else:
                    going.append(episode)
            return going

        def fail(episode: Episode, error: InstrumentError) -> None:
            again.extend(filter(None, [self._failed(episode, error, on_fault)]))

        going = do([(episode, partial(self._begin, episode)) for episode in wave])
        turn = 0
        while going:
            started = time.monotonic()
            try:
                replies = _asked(agent.act_batch, going, [_copied(episode) for episode in going], seed + turn)
            except InstrumentError as error:
                for episode in going:
                    fail(episode, error)
                break
            if not isinstance(replies, Sequence) or len(replies) != len(going):
                count = len(replies) if isinstance(replies, Sequence) else type(replies).__name__
                raise UserError(
                    f"act_batch returned {count} for {len(going)} conversations: it returns a list with a "
                    "Reply for each"
                )
            steps = []
            took_s = time.monotonic() - started
            for episode, reply in zip(going, map(checked, replies)):
                episode.spent_s += took_s
                over = self._over_time(episode)
                if over is not None:
                    fail(episode, over)
                else:
                    steps.append((episode, partial(self._step, episode, reply)))
            going = do(steps)
            turn += 1
        return again

    def _submit(self, episode: Episode, work: Callable[[], Any], in_env: bool = True) -> Call:
        step, whole = self.limits.step_timeout_s, self.limits.episode_timeout_s
        limits = [step] if step is not None and in_env else []
        if whole is not None:
            limits.append(max(0.001, whole - episode.spent_s))
        episode.in_env = in_env
        call = self._crew.submit(work, min(limits, default=None), partial(self._close, episode))
        self._held[call] = episode
        return call

    def _close(self, episode: Episode) -> None:
        """Closes an environment that was made for this episode. In a thread of the crew."""
        if self._factory is not None and episode.env is not None:
            episode.env.close()

    def _begin(self, episode: Episode) -> None:
        """Resets an environment of the episode's own. In a thread of the crew, as the next two."""
        job = episode.job
        if self._given is not None:
            episode.env = self._given[job.index]
        else:
            with self._making:
                fresh = not self._free or episode.attempt > 1
                episode.env = self._factory() if fresh else self._free.pop()  # type: ignore[misc]
                self._open.add(episode.env)
        options = None if job.problem_id is None else {"problem_id": job.problem_id}
        observation, episode.info = episode.env.reset(seed=self.seed + job.index, options=options)
        episode.hear(observation)

    def _act(self, episode: Episode) -> Reply:
        return checked(Reply(_asked(self.agent.act, [episode], _copied(episode))))

    def _step(self, episode: Episode, reply: Reply) -> None:
        assert episode.env is not None
        episode.say(reply)
        observation, reward, terminated, truncated, episode.info = episode.env.step(reply.text)
        episode.reward += float(reward)
        episode.done = terminated or truncated
        if not episode.done:
            episode.hear(observation)

    def _account(self, call: Call, late: bool) -> tuple[Episode, InstrumentError | None]:
        """Whose call has ended or was left behind, and how the instrument failed; raises other errors."""
        episode = self._held.pop(call)
        episode.spent_s += call.timeout_s or 0.0 if late else call.took_s
        if late:
            episode.stuck = episode.in_env
            over = self._over_time(episode)
            return episode, over or EpisodeTimeoutError(f"a step took longer than {call.timeout_s:g} s")
        error = call.future.exception()
        if error is None or isinstance(error, InstrumentError):
            return episode, error
        error.add_note(f"raised in {_named([episode])}")
        raise error

    def _over_time(self, episode: Episode) -> EpisodeTimeoutError | None:
        whole = self.limits.episode_timeout_s
        if whole is None or episode.spent_s < whole:
            return None
        return EpisodeTimeoutError(f"the episode took longer than {whole:g} s")

    def _failed(self, episode: Episode, error: InstrumentError, on_fault: OnFault) -> Episode | None:
        """The next try at an episode, if there is one."""
        job = episode.job
        if self._factory is not None and episode.env is not None:
            self._open.discard(episode.env)
            if not episode.stuck:
                closing = self._crew.submit(partial(self._close, episode), self.limits.step_timeout_s)
                self._closing.append(closing)
        if episode.attempt <= self.limits.retries and not (episode.stuck and self._given is not None):
            return Episode(job, episode.attempt + 1)
        timed_out = isinstance(error, EpisodeTimeoutError)
        on_fault(Fault(job.index, job.problem_id, str(error), episode.attempt, timed_out), error)
        return None

    def _end(self, episode: Episode, on_end: OnEnd) -> None:
        if self._factory is not None and episode.env is not None:
            self._free.append(episode.env)
        on_end(episode.job.index, episode.trajectory())


def _copied(episode: Episode) -> list[Message]:
    """The conversation, for an agent to do with as it likes."""
    return [message.copy() for message in episode.messages]


def _asked(ask: Callable[..., Any], episodes: Sequence[Episode], *arguments: Any) -> Any:
    """What an agent's function returns. Whatever it raises that is no error of ours is its mistake; so is an
    exit, which would end the process as if the work were done."""
    try:
        return ask(*arguments)
    except (CefError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UserError(f"the agent failed in {_named(episodes)}: {describe(error)}") from error


def _named(episodes: Sequence[Episode]) -> str:
    first = episodes[0].job
    others = f" and {len(episodes) - 1} others" if len(episodes) > 1 else ""
    return f"episode {first.index} (problem {first.problem_id or 'drawn by the seed'}){others}"
