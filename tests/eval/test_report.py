"""Summary, report, figures and tables."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from rich.console import Console

from cef_env.errors import UserError
from cef_env.eval import (
    Sample,
    analyse,
    claims_table,
    frontier,
    outcome_table,
    summarise,
    tabulate,
    write_report,
)
from cef_env.eval.analysis import budget_grid
from cef_env.eval.figures import frontier_figure, training_figure
from cef_env.eval.plotting import save
from cef_env.eval.summary import clean
from cef_env.judge.types import Outcome
from tests.eval import synthetic

TRAIN_LOG = [
    {
        "run": run,
        "step": s,
        "reward": s / 10,
        "correct": 0.3,
        "optimization_failure": 0.2,
        "format_error": 0.0,
    }
    for run in ("low", "high")
    for s in range(5)
]


@pytest.fixture(scope="module")
def samples():
    hard = synthetic.draw(synthetic.PAPER_LIKE, problems=25, answers=8)
    return hard + synthetic.draw(
        synthetic.NULL, problems=6, answers=4, alphas=(0.0, 0.5, 1.0), split="<easy & co>"
    )


@pytest.fixture(scope="module")
def page(samples, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    meta = {"title": "A <run>", "model": {"name": "tiny", "size": 3}, "alphas": [0, 1], "nothing": None}
    path = write_report(out, samples, meta, TRAIN_LOG, notes=["A note & more."])
    assert path == out / "report.html"
    return out


def test_summary_is_deterministic_json_without_nan(samples):
    first = json.dumps(summarise(samples, {"seed": 0}), allow_nan=False, sort_keys=True)
    assert json.dumps(summarise(samples[::-1], {"seed": 0}), allow_nan=False, sort_keys=True) == first
    summary = json.loads(first)
    hard = summary["splits"]["hard"]
    assert hard["problems"] == 25
    assert set(hard["claims"]) == {*synthetic_claims()}
    assert hard["pass_at_k"][0]["values"].keys() == {"1", "2", "5", "8"}
    assert summary["splits"]["<easy & co>"]["claims"]["coverage"]["held"] is None


def synthetic_claims():
    from cef_env.eval.verdicts import PAPER

    return PAPER


def test_one_problem_one_answer_has_no_interval_and_no_nan():
    rows = [Sample("p", "s", a, 0, Outcome.CORRECT) for a in (0.0, 1.0)]
    summary = summarise(rows)
    assert summary["splits"]["s"]["rates"][0]["correct"] == {
        "value": 1.0,
        "low": None,
        "high": None,
        "reason": "an interval needs two problems",
    }
    assert summary["splits"]["s"]["ensembles"] is None
    json.dumps(summary, allow_nan=False)


def unexplained(value, path=""):
    """Paths of numbers that are null without a reason beside them."""
    if isinstance(value, dict):
        if "value" in value:
            gone = [key for key in ("value", "low", "high") if value.get(key) is None]
            return [path] if gone and not value.get("reason") else []
        return [bad for key, inner in value.items() for bad in unexplained(inner, f"{path}/{key}")]
    if isinstance(value, list):
        return [bad for i, inner in enumerate(value) for bad in unexplained(inner, f"{path}/{i}")]
    return []


@pytest.mark.parametrize(
    "case", ["nothing solved", "all solved", "controls only", "uneven", "one answer", "few"]
)
def test_nothing_is_null_without_a_reason(case, tmp_path):
    kind = Outcome.CORRECT if case == "all solved" else Outcome.CORRECTNESS_FAILURE
    alphas = [(a, "") for a in (-0.5, 0.0, 0.5, 1.0, 1.5)] + [(None, "base")]
    if case == "controls only":
        alphas = [(None, "base"), (None, "other")]
    if case == "few":
        alphas = [(0.5, "")]
    rows = [
        Sample(
            f"{p:02}",
            "s",
            alpha,
            i,
            Outcome.CORRECT if case == "uneven" and i == p % 3 else kind,
            label=label,
        )
        for alpha, label in alphas
        for p in range(22)
        for i in range(1 if case == "one answer" else 5 if alpha != 0.5 or case != "uneven" else 8)
    ]
    if case in ("controls only", "nothing solved"):
        assert write_report(tmp_path, rows).exists()
    split = json.loads(json.dumps(summarise(rows), allow_nan=False))["splits"]["s"]
    assert unexplained(split) == []
    for name in ("ensembles", "allocation", "only_outer", "jaccard"):
        assert split[name] is not None or split["missing"][name], name
    if split["jaccard"] is not None and any(None in row for row in split["jaccard"]):
        assert split["missing"]["jaccard"]
    assert all(claim["reason"] for claim in split["claims"].values() if claim["held"] is None)


def test_different_sets_of_problems_are_refused_with_an_example():
    rows = [Sample(p, "s", a, 0, Outcome.CORRECT) for a, ids in ((0.0, "xy"), (1.0, "yz")) for p in ids]
    with pytest.raises(UserError, match=r"alpha 0 has none to 'z'.*a split of its own"):
        analyse(rows)


def test_no_samples():
    with pytest.raises(UserError, match="no sample to analyse"):
        summarise([])


def test_clean_rounds_and_refuses():
    assert clean({"b": 1 / 3, "a": (float("nan"), -0.0, True, None, 10**12)}) == {
        "a": [None, 0.0, True, None, 10**12],
        "b": 0.3333333333,
    }
    with pytest.raises(TypeError, match="cannot be part of a summary"):
        clean(object())


def test_report_is_one_file_that_loads_nothing(page):
    text = (page / "report.html").read_text()
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)[^"']*""", text) == []
    assert re.findall(r"url\((?!#)", text) == []
    assert "@import" not in text
    assert "<script" not in text
    # The only addresses are the names of the SVG vocabularies, which nothing fetches.
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert text.count("<svg") == 4 + 4 + 1
    assert "A &lt;run&gt;" in text
    assert "&lt;easy &amp; co&gt;" in text
    assert "A note &amp; more." in text
    assert "prefers-color-scheme: dark" in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', text):
        assert target in ids


def test_report_is_well_formed(page):
    class Checker(HTMLParser):
        void = frozenset({"meta", "br", "use", "path"})

        def __init__(self):
            super().__init__()
            self.open = []

        def handle_starttag(self, tag, attrs):
            if tag not in self.void:
                self.open.append(tag)

        def handle_startendtag(self, tag, attrs):
            pass

        def handle_endtag(self, tag):
            if tag not in self.void:
                assert self.open.pop() == tag

    checker = Checker()
    checker.feed((page / "report.html").read_text())
    assert checker.open == []


def test_equal_results_give_equal_files(page, samples, tmp_path):
    meta = {"title": "A <run>", "model": {"name": "tiny", "size": 3}, "alphas": [0, 1], "nothing": None}
    write_report(tmp_path, samples, meta, TRAIN_LOG, notes=["A note & more."])
    ours = {p.relative_to(page): p.read_bytes() for p in page.rglob("*") if p.is_file()}
    theirs = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert ours == theirs
    assert sum(p.suffix == ".png" for p in ours) == 9


def test_svg_files_are_deterministic(samples, tmp_path):
    found = frontier(tabulate(samples)["hard"])
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save(frontier_figure(found), tmp_path / name / "frontier.svg")
    assert (tmp_path / "a/frontier.svg").read_bytes() == (tmp_path / "b/frontier.svg").read_bytes()


def test_figures_survive_thin_data(tmp_path):
    rows = [Sample("p", "s", 0.0, 0, Outcome.CORRECT)]
    save(training_figure([{"run": "a", "step": 0}]), tmp_path / "training.png")
    assert write_report(tmp_path / "r", rows).exists()


def test_tables(samples):
    console = Console(width=130, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    splits = analyse(samples)
    console.print(outcome_table(splits["hard"]))
    console.print(claims_table(splits))
    text = console.export_text()
    assert "low 0" in text
    assert "high 1" in text
    assert "hard: 25 problems, 8 answers each" in text
    assert "cannot tell" in text


def test_budget_grid():
    assert budget_grid(1) == (1,)
    assert budget_grid(24) == (1, 2, 5, 10, 24)
    assert budget_grid(250) == (1, 2, 5, 10, 20, 50, 100, 250)


def test_importing_eval_is_light():
    heavy = "('torch', 'matplotlib', 'scipy', 'jinja2', 'rich', 'transformers')"
    code = f"import sys, cef_env.eval; sys.exit(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
