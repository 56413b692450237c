"""`cef report` on folders: one page for one run, one comparison for several, and what it refuses."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cef_env.cli import app
from cef_env.errors import UserError
from cef_env.eval.analysis import analyse
from cef_env.eval.plan import Plan, Work
from cef_env.eval.programs import Judgement, Program, ProgramStore
from cef_env.eval.reader import read_answers
from cef_env.eval.records import Member
from cef_env.eval.store import SampleStore
from cef_env.eval.table import cell
from cef_env.eval.tables import read_tables
from tests.eval import pages, synthetic


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep as `cef eval` leaves it."""
    return make_folder(tmp_path_factory.mktemp("runs") / "one", seed=0)


def make_folder(out: Path, seed: int) -> Path:
    samples = synthetic.draw(synthetic.PAPER_LIKE, problems=6, answers=4, alphas=(0.0, 1.0, 1.5), seed=seed)
    ids = tuple(sorted({s.problem_id for s in samples}))
    work = tuple(Work(Member(a), "hard", ids, 4) for a in (0.0, 1.0, 1.5))
    config = {"seed": seed, "env": "cef/Reasoning-v0", "problems": {"hard": "jsonl:gone.jsonl"}}
    plan = Plan(work, 6, 4, config)
    out.mkdir(parents=True)
    (out / "plan.json").write_text(json.dumps(plan.to_json()))
    with closing(ProgramStore(out)) as programs, SampleStore(out / "samples.jsonl") as store:
        for chunk in plan.chunks():
            mine = [s for s in samples if s.alpha == chunk.member.alpha]
            answers = [pages.answer(s) for s in mine if s.program_sha256]
            hashes = [str(a.sample.program_sha256) for a in answers]
            programs.append(
                {h: Program(h, str(a.program)) for h, a in zip(hashes, answers, strict=True)},
                [
                    Judgement(a.sample.problem_id, h, a.sample.outcome, a.tests)
                    for h, a in zip(hashes, answers, strict=True)
                ],
            )
            store.append(chunk, mine)
    return out


def test_a_folder_of_eval_gets_a_page_with_its_programs(folder: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    page = (folder / "report" / "report.html").read_text()
    held = re.search(r"This page holds (\d+) of (\d+) answers", page)
    assert held is not None
    assert 0 < int(held[1]) <= int(held[2]) == 6 * 4 * 3
    assert "The statements of hard are missing: " in page
    assert (folder / "report" / "figures" / "hard-frontier.svg").is_file()


def test_the_terminal_shows_the_numbers_of_the_page(tmp_path: Path) -> None:
    """Intervals are drawn with the seed of the sweep, wherever they are shown."""
    folder = make_folder(tmp_path / "seeded", seed=1)
    done = CliRunner().invoke(app, ["report", str(folder)])
    shown = set(re.findall(r"\d\.\d{3} ±\d\.\d{3}", done.output))
    cells = {
        seed: {
            cell(rate) for point in analyse(read_tables(folder), seed)["hard"].frontier.points
            for rate in point.rates.values()
        }
        for seed in (0, 1)
    }  # fmt: skip
    assert cells[0] != cells[1] == shown


def test_answers_come_with_program_and_verdicts(folder: Path) -> None:
    tables = read_tables(folder)
    answers = read_answers(folder, list(tables.values()))
    assert answers
    for answer in answers:
        assert (answer.program is None) == (answer.sample.program_sha256 is None)
        assert bool(answer.tests) == (answer.program is not None)


def test_several_runs_make_one_comparison_and_leave_the_runs_alone(folder: Path, tmp_path: Path) -> None:
    other = make_folder(tmp_path / "other", seed=1)
    before = sorted(p.name for p in other.iterdir())
    done = CliRunner().invoke(app, ["report", str(folder), str(other), "--out", str(tmp_path / "both")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "both" / "comparison.html").read_text()
    assert re.search(r"<th scope=\"row\">seed</th><td>0</td><td>1</td>", page)
    assert sorted(p.name for p in other.iterdir()) == before


@pytest.mark.parametrize("count", [1, 2])
def test_a_folder_that_is_no_run_is_refused_by_name(tmp_path: Path, count: int) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty' is no run \(neither"):
        CliRunner().invoke(app, ["report", *[str(tmp_path / "empty")] * count], catch_exceptions=False)
