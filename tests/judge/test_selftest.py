"""The self-test counts what it should: disagreements, flakes and faults, each apart."""

import itertools
from pathlib import Path
from typing import Any, cast

import pytest

from cef_env.errors import JudgeError, UserError
from cef_env.judge import Judge, JudgeResult, Outcome, TestResult, Verdict, selftest
from cef_env.judge.corpus import CORPUS, Labelled
from cef_env.judge.corpus.labelled import ACCEPTED, SUM, WRONG_ANSWER
from cef_env.judge.corpus.needs import STARTS_PROCESSES, WRITES_FILES
from cef_env.judge.selftest import self_test, third
from tests.judge.helpers import tier_or_skip

SIX = "print(6)"


class StubJudge:
    """Gives each program the verdicts it was told, one per round; an exception is raised."""

    tier, workers, cached, speed_factor = "cgroups", 2, False, 1.0

    def __init__(self, **answers: list[Verdict | Exception]) -> None:
        self.answers = {name: itertools.cycle(verdicts) for name, verdicts in answers.items()}
        self.order: list[str] = []

    def run(self, problem: Any, program: str, language: str) -> JudgeResult:
        self.order.append(program)
        answer = next(self.answers[program])
        if isinstance(answer, Exception):
            raise answer
        return JudgeResult("p", Outcome.CORRECT, (TestResult(1, answer, 0, 0, 0),), (1,), tier=self.tier)


def corpus(*names: str) -> list[Labelled]:
    return [Labelled(name, name, SUM, ACCEPTED) for name in names]


def stub(**answers: list[Verdict | Exception]) -> Judge:
    return cast(Judge, StubJudge(**answers))


def test_disagreements_flakes_and_faults_are_counted_apart() -> None:
    right, wrong = Verdict.ACCEPTED, Verdict.WRONG_ANSWER
    judge = stub(good=[right], bad=[wrong], flaky=[right, wrong], broken=[JudgeError("died"), right])
    steps: list[tuple[int, int]] = []
    report = self_test(
        judge, 4, 0, corpus("good", "bad", "flaky", "broken"), lambda done, total: steps.append((done, total))
    )
    assert report.flaky == ("flaky",)
    assert report.flake_rate == 0.25
    assert sorted((item.name, item.round) for item in report.disagreements) == [
        *(("bad", n) for n in (1, 2, 3, 4)),
        ("flaky", 2),
        ("flaky", 4),
    ]
    assert [(fault.name, fault.round, fault.message) for fault in report.faults] == [
        ("broken", 1, "died"),
        ("broken", 3, "died"),
    ]
    assert dict(report.confusion) == {("accepted", "accepted"): 8, ("accepted", "wrong_answer"): 6}
    assert not report.agrees
    assert steps == [(n, 16) for n in range(1, 17)]


def test_a_flake_between_two_right_verdicts_is_a_flake_and_no_disagreement() -> None:
    both = [Labelled("either", "either", SUM, ACCEPTED | WRONG_ANSWER)]
    report = self_test(stub(either=[Verdict.ACCEPTED, Verdict.WRONG_ANSWER]), 2, 0, both)
    assert report.agrees
    assert report.flake_rate == 1.0


def test_a_fault_alone_is_no_agreement() -> None:
    report = self_test(stub(broken=[JudgeError("died")]), 1, 0, corpus("broken"))
    assert not report.agrees
    assert report.confusion == {}


def test_one_round_shows_no_flakes() -> None:
    report = self_test(stub(good=[Verdict.ACCEPTED]), 1, 0, corpus("good"))
    assert report.agrees
    assert report.flake_rate is None


def test_every_round_has_an_order_of_its_own_which_the_seed_fixes() -> None:
    names = [f"p{n}" for n in range(12)]

    def order(seed: int) -> list[str]:
        judge = StubJudge(**{name: [Verdict.ACCEPTED] for name in names})
        judge.workers = 1
        self_test(cast(Judge, judge), 2, seed, corpus(*names))
        return judge.order

    first = order(0)
    assert first == order(0)
    assert first != order(1)
    assert first[:12] != first[12:]
    assert sorted(first[:12]) == sorted(first[12:]) == sorted(names)


def test_real_programs_with_a_wrong_label_are_found(judge: Judge) -> None:
    labelled = [Labelled("six", SIX, SUM, ACCEPTED), Labelled("mislabelled", SIX, SUM, WRONG_ANSWER)]
    labelled[1] = Labelled("mislabelled", SIX + " ", SUM, WRONG_ANSWER)
    report = self_test(judge, 2, 0, labelled)
    assert [(item.name, item.expected, item.got) for item in report.disagreements] == [
        ("mislabelled", "wrong_answer", "accepted")
    ] * 2


def test_without_a_compiler_cpp_is_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler() -> list[str]:
        raise UserError("no C++ compiler: install g++")

    monkeypatch.setattr(selftest, "toolchain_paths", no_compiler)
    programs = [*corpus("good"), Labelled("cpp", "cpp", SUM, ACCEPTED, language="cpp17")]
    report = self_test(stub(good=[Verdict.ACCEPTED]), 1, 0, programs)
    assert report.skipped == {"no C++ compiler: install g++": ("cpp",)}
    assert report.programs == 1


def test_a_judge_that_would_distort_the_test_is_refused(tmp_path: Path) -> None:
    with Judge(workers=1, cache=tmp_path / "c") as judge, pytest.raises(UserError, match="without cache"):
        self_test(judge)
    with Judge(workers=1, speed_factor=2) as judge, pytest.raises(UserError, match="speed_factor=1"):
        self_test(judge)


@pytest.mark.parametrize("arguments", [{"rounds": 0}, {"corpus": []}])
def test_nothing_to_do_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="at least one"):
        self_test(stub(), **arguments)


def test_a_third_keeps_every_kind() -> None:
    def kinds(programs: list[Labelled]) -> set[tuple[str, str]]:
        return {(labelled.language, labelled.label) for labelled in programs}

    chosen = third()
    assert kinds(chosen) == kinds(list(CORPUS))
    assert len(CORPUS) / 3 <= len(chosen) < len(CORPUS) / 2


def test_what_a_tier_refuses_is_left_out_by_name_and_the_rest_agrees() -> None:
    tier_or_skip("landlock")
    chosen = [item for item in CORPUS if item.name in {"temporary_file", "subprocess_python", "input"}]
    with Judge(workers=2, sandbox="landlock") as judge:
        report = self_test(judge, rounds=1, corpus=chosen)
    assert report.agrees
    assert report.skipped == {"the tier lets no program write files": ("temporary_file",)}


def test_every_refused_name_is_in_the_corpus() -> None:
    assert {item.name for item in CORPUS} >= WRITES_FILES | STARTS_PROCESSES


def test_every_program_that_starts_a_process_is_known_to() -> None:
    starts = ("os.fork", "subprocess", "multiprocessing", "os.system", "os.popen", "posix_spawn")
    found = {item.name for item in CORPUS if any(word in item.program for word in starts)}
    assert found <= WRITES_FILES | STARTS_PROCESSES
