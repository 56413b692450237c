"""Threads for work that may never end: how many, what an error leads to, and what is left behind."""

import threading
import time

import pytest

from cef_env.envs.crew import Crew


def test_no_more_threads_work_than_may() -> None:
    crew, lock = Crew(3, "crew-a"), threading.Lock()
    counts = {"now": 0, "most": 0}

    def work() -> None:
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts.values())
        time.sleep(0.02)
        with lock:
            counts["now"] -= 1

    assert crew.all([crew.submit(work) for _ in range(12)]) == set()
    assert counts["most"] == 3
    crew.close()
    assert not any(thread.name == "crew-a" for thread in threading.enumerate())


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    crew = Crew(1, "crew")
    bad, good = crew.submit(lambda: 1 // 0), crew.submit(lambda: 7)
    crew.all([bad, good])
    with pytest.raises(ZeroDivisionError):
        bad.future.result()
    assert good.future.result() == 7
    crew.close()


def test_time_counts_from_the_beginning_of_the_work() -> None:
    crew = Crew(1, "crew")
    calls = [crew.submit(lambda: time.sleep(0.1), timeout_s=0.4) for _ in range(8)]
    assert crew.all(calls) == set()
    crew.close()


def test_a_call_over_its_time_keeps_its_thread_and_cleans_up_when_it_ends() -> None:
    crew, go, cleaned = Crew(1, "crew"), threading.Event(), threading.Event()
    stuck = crew.submit(go.wait, timeout_s=0.1, late=cleaned.set)
    others = [crew.submit(lambda: 7) for _ in range(3)]
    assert crew.all([stuck, *others]) == {stuck}
    assert [call.future.result() for call in others] == [7, 7, 7]
    crew.close()  # waits for nothing that was left behind
    assert not cleaned.is_set()
    go.set()
    assert cleaned.wait(10)


def test_closing_without_waiting_drops_what_has_not_begun() -> None:
    crew, go, cleaned = Crew(1, "crew"), threading.Event(), threading.Event()
    began = threading.Event()
    crew.submit(lambda: (began.set(), go.wait()), late=cleaned.set)
    waiting = crew.submit(lambda: 7)
    assert began.wait(10)
    crew.close(wait=False)
    assert waiting.future.cancelled()
    go.set()
    assert cleaned.wait(10)
