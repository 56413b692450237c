"""A judge whose programs run on the nodes of a Ray cluster: one actor with a pool of boxes for each node.

    with RayJudge() as judge:              # within a Ray driver, task or actor
        judge.run(problem, program).outcome

All judges of one Ray job share the actors, so that many rollout engines do not start many pools. A node
that dies loses no verdict: what it was judging is judged again elsewhere, and a node that joins is used.
Tests of a problem travel once to each node, through Ray's object store. Needs cef-env and a working isolation
tier on every node. Does not start Ray, and reserves no CPU of it: training reserves what it needs, judging
takes what is left, and CPU time, not wall time, decides a time limit.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cef_env.errors import JudgeError, UserError
from cef_env.judge.base import BaseJudge
from cef_env.judge.judge import BOXES_PER_CORE, Judge
from cef_env.judge.languages import Language, parse_language
from cef_env.judge.suite import Job, refuse_mistakes
from cef_env.judge.types import JudgeResult
from cef_env.problems.types import Coverage, Problem, parse_coverage
from cef_env.sandbox.tiers import Tier

NAMESPACE = "cef-judge"
MOST_LOST = 5
"""Actors that one program may be lost with before it is given up: it may be what kills them."""
REFRESH_S = 30.0
"""How often the nodes of the cluster are looked at."""
WAIT_S = 60.0
"""How long a run waits for a node when there is none."""
KEPT_PROBLEMS = 256
"""Problems that stay in the object store for the next run."""


@dataclass(frozen=True)
class NodeSettings:
    """What the judge of each node is made with; as the arguments of `Judge`."""

    workers: int | None = None
    """Programs at once on one node; by default twice the CPUs that Ray knows of it."""
    sandbox: str = "auto"
    packages: tuple[str, ...] = ()
    speed_factor: float | None = None


class NodeJudge:
    """The actor of one node. Its judge starts with the first program, so that its errors reach a caller."""

    def __init__(self, settings: NodeSettings, workers: int) -> None:
        self._settings, self._workers = settings, workers
        self._lock = threading.Lock()
        self._judge: Judge | None = None

    def run(
        self, held: list[Any], program: str, coverage: Coverage, exhaustive: bool, language: str
    ) -> JudgeResult:
        """`held` is one reference to the problem, wrapped so that Ray does not load it for every call."""
        import ray

        problem: Problem = ray.get(held[0])
        return self._started().run(problem, program, coverage, exhaustive, language)

    def facts(self) -> tuple[Tier, float]:
        """Isolation tier and speed factor."""
        judge = self._started()
        return judge.tier, judge.speed_factor

    def _started(self) -> Judge:
        with self._lock:
            if self._judge is None:
                one = self._settings
                self._judge = Judge(
                    self._workers, one.sandbox, packages=one.packages, speed_factor=one.speed_factor
                )
            return self._judge


@dataclass
class _Node:
    """The actor of one node, as one caller sees it."""

    actor: Any
    workers: int
    running: int = 0


class RayJudge(BaseJudge):
    """Judges on every node of the Ray cluster that this process belongs to.

    The actors end with the Ray job, not with `close`: other judges of the job may be using them.

    Raises `UserError` when Ray is not installed or not started here, and what `Judge` raises, at the first
    program.
    """

    def __init__(self, settings: NodeSettings = NodeSettings()) -> None:
        try:
            import ray
        except ImportError as error:
            raise UserError('the Ray judge needs Ray: pip install "cef-env[ray]"') from error
        if not ray.is_initialized():
            raise UserError("the Ray judge needs a Ray cluster: call ray.init() first, or use Judge()")
        self.settings = settings
        self.lost = 0
        """How many runs were lost with their node, and done again elsewhere."""
        self._lock = threading.Lock()
        self._nodes: dict[str, _Node] = {}
        self._looked = -REFRESH_S
        self._problems: OrderedDict[str, Any] = OrderedDict()
        self._look()

    @property
    def workers(self) -> int:  # type: ignore[override]
        """Programs at once on all nodes together."""
        with self._lock:
            return max(1, sum(node.workers for node in self._nodes.values()))

    @property
    def tier(self) -> Tier:
        """How strongly programs are confined, on the node that is asked."""
        return self._ask(lambda actor: actor.facts.remote())[0]

    @property
    def speed_factor(self) -> float:  # type: ignore[override]
        """What time limits are multiplied by, on the node that is asked."""
        return self._ask(lambda actor: actor.facts.remote())[1]

    @property
    def nodes(self) -> int:
        """How many nodes take part now."""
        with self._lock:
            return len(self._nodes)

    def run(
        self,
        problem: Problem,
        program: str,
        coverage: Coverage = None,
        exhaustive: bool = False,
        language: str = Language.PYTHON,
    ) -> JudgeResult:
        """Judge one program on the node with the least to do; see `Judge.run`.

        Raises `JudgeError` when no node is left, or when the program was lost with several.
        """
        job = Job(problem, program, parse_coverage(coverage), exhaustive, parse_language(language))
        refuse_mistakes(job)
        options = (program, job.coverage, exhaustive, str(job.language))
        result: JudgeResult = self._ask(lambda actor: actor.run.remote([self._put(problem)], *options))
        return result

    def _ask(self, call: Callable[[Any], Any]) -> Any:
        """What an actor answers to a call; asked again elsewhere when it is lost."""
        import ray

        reason = ""
        for _ in range(MOST_LOST):
            id_, node = self._lend()
            try:
                return ray.get(call(node.actor))
            except ray.exceptions.RayTaskError as error:
                if not isinstance(error.cause, ray.exceptions.RayError):
                    raise error.cause from None
                reason = type(error.cause).__name__
                with self._lock:
                    self._problems.clear()  # what the actor could not get; sent anew
            except ray.exceptions.RayError as error:
                reason = " ".join(str(error).split())[:300]
            finally:
                with self._lock:
                    node.running -= 1
            self._lose(id_, node)
        raise JudgeError(
            f"the program was lost {MOST_LOST} times with its judge node; the last time: {reason}"
        )

    def close(self) -> None:
        """Forget the nodes and the problems that were sent to them."""
        with self._lock:
            self._nodes.clear()
            self._problems.clear()

    def _key(self, job: Job) -> str:
        return repr((self._name(job.problem), job.program, job.coverage, job.exhaustive, job.language))

    def _name(self, problem: Problem) -> str:
        return f"{problem.id}\0{problem.tests_hash}\0{problem.time_limit_s}\0{problem.memory_limit_mb}"

    def _put(self, problem: Problem) -> Any:
        """A reference to the problem in the object store."""
        import ray

        name = self._name(problem)
        with self._lock:
            if name not in self._problems:
                self._problems[name] = ray.put(problem)
            self._problems.move_to_end(name)
            while len(self._problems) > KEPT_PROBLEMS:
                self._problems.popitem(last=False)
            return self._problems[name]

    def _lend(self) -> tuple[str, _Node]:
        """The node with the least to do for its size, which has one program more from now on."""
        ends = time.monotonic() + WAIT_S
        while True:
            if time.monotonic() - self._looked > REFRESH_S or not self._nodes:
                self._look()
            with self._lock:
                if self._nodes:
                    id_ = min(
                        self._nodes, key=lambda id_: self._nodes[id_].running / self._nodes[id_].workers
                    )
                    self._nodes[id_].running += 1
                    return id_, self._nodes[id_]
            if time.monotonic() > ends:
                raise JudgeError(f"no node of the Ray cluster could judge for {WAIT_S:g} s")
            time.sleep(0.5)

    def _lose(self, id_: str, node: _Node) -> None:
        """Stop using an actor that failed; the next run looks which nodes are alive."""
        with self._lock:
            if self._nodes.get(id_) is node:
                del self._nodes[id_]
            self.lost += 1
            self._looked = -REFRESH_S

    def _look(self) -> None:
        """Take in nodes that are alive and have CPUs, drop those that are gone."""
        import ray

        alive = {
            node["NodeID"]: int(node["Resources"]["CPU"])
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        }
        with self._lock:
            self._looked = time.monotonic()
            for id_ in set(self._nodes) - set(alive):
                del self._nodes[id_]
            for id_ in set(alive) - set(self._nodes):
                workers = self.settings.workers or BOXES_PER_CORE * alive[id_]
                self._nodes[id_] = _Node(self._actor(id_, workers), workers)

    def _actor(self, id_: str, workers: int) -> Any:
        """The actor of a node, which other judges of this job may have started."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        digest = hashlib.sha256(repr(self.settings).encode()).hexdigest()[:12]
        job = ray.get_runtime_context().get_job_id()
        return (
            ray.remote(NodeJudge)
            .options(
                name=f"{job}-{digest}-{id_}",
                namespace=NAMESPACE,
                get_if_exists=True,
                num_cpus=0,
                max_concurrency=workers,
                # Named outright: an actor of a placement group would otherwise pull its children into it.
                scheduling_strategy=NodeAffinitySchedulingStrategy(id_, soft=False),
            )
            .remote(self.settings, workers)
        )
