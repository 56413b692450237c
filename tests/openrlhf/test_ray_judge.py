"""Judging on several Ray nodes (all on this machine): no verdict is lost, and more nodes judge more."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cef_env.errors import JudgeError, UserError
from cef_env.judge import Judge, Outcome
from cef_env.judge.ray_judge import NodeJudge, NodeSettings, RayJudge
from tests.judge.helpers import make_problem

ray = pytest.importorskip("ray", reason="needs Ray; run `make test-openrlhf`")

PROBLEM = make_problem(("1", "1"), ("22", "22"), time_limit_s=4.0)
ECHO = "print(input())"
IDLE = "import time; time.sleep(0.4); print(input())"
"""Waits on wall time, as programs on other machines would: here all nodes share the same two cores."""


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A Ray cluster whose head judges nothing; nodes are added by the test."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20},
    )
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add(cluster: Any, count: int) -> list[Any]:
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=100 << 20) for _ in range(count)]
    cluster.wait_for_nodes()
    return nodes


def connect(cluster: Any) -> None:
    ray.init(address=cluster.address, log_to_driver=False)


def varied(count: int, program: str) -> list[tuple[Any, str]]:
    """Programs that are told apart, so that none is judged together with an equal one."""
    return [(PROBLEM, f"{program}  # {number}") for number in range(count)]


def test_results_are_those_of_the_judge_of_this_machine(cluster: Any) -> None:
    add(cluster, 2)
    connect(cluster)
    pairs = [(PROBLEM, ECHO), (PROBLEM, "print(1)"), (PROBLEM, "x ="), (PROBLEM, "print(int('x'))")]
    with RayJudge() as judge, Judge(workers=2) as local:
        assert judge.nodes == 2
        here, there = local.map(pairs), judge.map(pairs)
        assert (judge.tier, judge.speed_factor) == (local.tier, local.speed_factor)
    for mine, theirs in zip(here, there, strict=True):
        assert theirs.outcome is mine.outcome
        assert [test.verdict for test in theirs.tests] == [test.verdict for test in mine.tests]
        assert theirs.tier == mine.tier


def test_mistakes_of_the_caller_and_of_the_settings_come_back_as_they_are(cluster: Any) -> None:
    add(cluster, 1)
    connect(cluster)
    with RayJudge() as judge, pytest.raises(UserError, match="no test under 10"):
        judge.run(make_problem(("1" * 30, "1")), ECHO, 1)
    with RayJudge(NodeSettings(sandbox="nowhere")) as judge, pytest.raises(UserError, match="nowhere"):
        judge.run(PROBLEM, ECHO)


def test_a_node_killed_in_the_middle_loses_no_verdict(cluster: Any) -> None:
    nodes = add(cluster, 3)
    connect(cluster)
    with RayJudge(NodeSettings(workers=2)) as judge:
        judge.map(varied(6, ECHO))  # every node has started
        started = threading.Event()

        def kill() -> None:
            started.wait()
            time.sleep(0.2)
            cluster.remove_node(nodes[1], allow_graceful=False)

        killer = threading.Thread(target=kill)
        killer.start()
        results = judge.map(varied(24, IDLE), progress=lambda done, total: started.set())
        killer.join()
        assert [result.outcome for result in results] == [Outcome.CORRECT] * 24
        assert judge.lost > 0
        deadline = time.monotonic() + 60
        while sum(node["Alive"] for node in ray.nodes()) > 3 and time.monotonic() < deadline:
            time.sleep(0.2)
        judge._looked = -1e9
        judge.run(PROBLEM, ECHO)
        assert judge.nodes == 2
        add(cluster, 1)  # and one that joins is used
        judge._looked = -1e9
        judge.run(PROBLEM, ECHO)
        assert judge.nodes == 3


def test_more_nodes_judge_more_in_the_same_time(cluster: Any) -> None:
    seconds = []
    for count in (1, 2):
        add(cluster, count)
        if count == 1:
            connect(cluster)
        with RayJudge(NodeSettings(workers=2)) as judge:
            judge.map(varied(6, ECHO))
            started = time.monotonic()
            results = judge.map(varied(12, IDLE))
            seconds.append(time.monotonic() - started)
            assert {result.outcome for result in results} == {Outcome.CORRECT}
    print(f"12 idle programs: {seconds[0]:.2f} s on 1 node, {seconds[1]:.2f} s on 3 nodes")
    assert seconds[0] / seconds[1] > 1.8


def test_judges_of_one_job_share_the_actors(cluster: Any) -> None:
    add(cluster, 1)
    connect(cluster)

    @ray.remote(num_cpus=0)
    def other() -> str:
        with RayJudge() as judge:
            judge.run(PROBLEM, ECHO)
            return next(iter(judge._nodes.values())).actor._actor_id.hex()

    with RayJudge() as judge:
        assert ray.get(other.remote()) == next(iter(judge._nodes.values())).actor._actor_id.hex()
        judge.run(PROBLEM, ECHO)


def test_a_program_that_takes_every_actor_with_it_is_given_up(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(cluster, 1)
    connect(cluster)

    class Fragile(NodeJudge):
        def run(self, *call: Any) -> Any:
            import os

            os._exit(1)

    monkeypatch.setattr("cef_env.judge.ray_judge.NodeJudge", Fragile)
    with RayJudge() as judge, pytest.raises(JudgeError, match="lost 5 times"):
        judge.run(PROBLEM, ECHO)


def test_without_a_cluster_it_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"ray\.init"):
        RayJudge()
