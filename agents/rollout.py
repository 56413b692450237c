"""Episodes: an agent plays environments, many at a time. Does not score, train or keep files (`record.py`).

    rollout(lambda: gym.make("cef/Agentic-v0"), agent, ids, seed=0, concurrency=32, step_timeout_s=120,
            retries=2, faults=faults)

An agent with `act_batch` gets waves of conversations in lockstep; any other is asked from several threads at
once, and each episode goes on as soon as it can. How this is done: `player.py`.
"""

from collections.abc import Sequence

from cef_env.agents.base import Agent, Trajectory
from cef_env.agents.episode import Fault, Job, Limits
from cef_env.agents.player import Envs, Player
from cef_env.errors import InstrumentError, UserError


def rollout(
    envs: Envs,
    agent: Agent,
    problem_ids: Sequence[str | None],
    seed: int,
    concurrency: int = 16,
    step_timeout_s: float | None = None,
    episode_timeout_s: float | None = None,
    retries: int = 0,
    faults: list[Fault] | None = None,
) -> list[Trajectory]:
    """One episode per entry of `problem_ids`.

    Args:
        envs: an environment for each episode; or a function that makes one. Then at most `concurrency` of
            them are alive, which are used again and closed in the end, beside those that hang.
        agent: anything with `act(messages) -> str`, which is called from several threads at once. If it has
            `act_batch`, that is called instead, from this thread: with all open conversations, or with those
            of `concurrency` episodes where environments are made here.
        problem_ids: which problem each episode is about; None draws one by the seed.
        seed: episode i resets its environment with `seed + i`; the agent's batches are sampled with it, too.
        concurrency, step_timeout_s, episode_timeout_s, retries: see `Limits`.
        faults: is told the episodes that the instrument failed, in order.

    Returns trajectories in the order of `problem_ids`, without those of `faults`. They depend on the seed and
    the agent, and not on how long anything took, if the agent's answers depend on its arguments only. (A
    fault takes its episode out of the batch, which the other replies of the batch may depend on.)

    Raises the `InstrumentError` of one such episode if `faults` is None: there is no reward to be made
    of it. Raises `UserError` from whatever else an agent raises, and for an answer that is no str; whatever
    else an environment raises is raised, with a note that names the episode.
    """
    if not callable(envs) and len(envs) != len(problem_ids):
        raise UserError(
            f"rollout: {len(envs)} environments for {len(problem_ids)} episodes; give one for each"
        )
    limits = Limits(concurrency, step_timeout_s, episode_timeout_s, retries)
    trajectories: dict[int, Trajectory] = {}
    failed: list[Fault] = []

    def on_fault(fault: Fault, error: InstrumentError) -> None:
        if faults is None:
            raise error
        failed.append(fault)

    with Player(envs, agent, seed, limits) as player:
        jobs = [Job(index, problem_id) for index, problem_id in enumerate(problem_ids)]
        player.play(jobs, trajectories.__setitem__, on_fault)
    if faults is not None:
        faults += sorted(failed, key=lambda fault: fault.index)
    return [trajectories[index] for index in sorted(trajectories)]
