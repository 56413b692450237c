"""Summary, report, figures and tables."""

import base64
import json
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser

import pytest
from rich.console import Console

from cef_env.errors import UserError
from cef_env.eval import (
    OUTCOMES,
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
from cef_env.eval.claim_lines import LEADING, TITLES, claim_groups
from cef_env.eval.comparison import Result, differences, write_comparison
from cef_env.eval.figures import frontier_figure, training_figure
from cef_env.eval.page import embed, flatten, typeset
from cef_env.eval.plotting import save
from cef_env.eval.reader import LONGEST, MOST, Answer, choose, pack
from cef_env.eval.summary import clean
from cef_env.eval.verdicts import PAPER
from cef_env.judge.types import Outcome
from tests.eval import pages


@pytest.fixture
def samples(report_samples):
    return report_samples


@pytest.fixture
def page(report_page):
    return report_page.parent


def test_summary_is_deterministic_json_without_nan(samples):
    first = json.dumps(summarise(samples, {"seed": 0}), allow_nan=False, sort_keys=True)
    assert json.dumps(summarise(samples[::-1], {"seed": 0}), allow_nan=False, sort_keys=True) == first
    summary = json.loads(first)
    hard = summary["splits"]["hard"]
    assert hard["problems"] == 26
    assert set(hard["claims"]) == {*PAPER}
    assert hard["pass_at_k"][0]["values"].keys() == {"1", "2", "5", "8"}
    assert summary["splits"]["<easy & co>"]["claims"]["coverage"]["held"] is None


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
    # The only addresses are the names of the SVG vocabularies, which nothing fetches.
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', text):
        assert target in ids


def test_what_comes_from_outside_is_escaped(page):
    text = (page / "report.html").read_text()
    assert "A &lt;run&gt;" in text
    assert "&lt;easy &amp; co&gt;" in text
    assert "A note &amp; more." in text
    assert "<b>bold</b>" not in text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert json.loads(embed({"<&>": "</script><!--"})) == {"<&>": "</script><!--"}
    assert not set("<>&") & set(embed({"<&>": "</script><!--"}))


def test_report_is_well_formed(page):
    class Checker(HTMLParser):
        void = frozenset({"meta", "br", "use", "path", "input"})

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
    write_report(tmp_path, samples, **pages.material(samples))
    ours = {p.relative_to(page): p.read_bytes() for p in page.rglob("*") if p.is_file()}
    theirs = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert ours == theirs
    for suffix in (".png", ".svg"):
        assert sum(p.suffix == suffix for p in ours) == 5 + 5 + 1


def test_no_number_is_nan_and_a_dash_says_why(tmp_path):
    rows = [Sample("p", "s", a, 0, Outcome.CORRECT) for a in (0.0, 1.0)]
    text = write_report(tmp_path, rows).read_text()
    assert "nan" not in re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL).lower()
    assert re.findall(r"title=\"no number: only 1 problems; [^\"]+\">–", text)
    assert "This page holds none of the 2 answers: their text was not kept." in text


def test_every_claim_has_a_short_title_and_its_leading_number_exists(samples):
    assert set(TITLES) == set(PAPER)
    groups = {group.id: group for group in claim_groups({"hard": analyse(samples)["hard"]})}
    assert list(groups) == list(PAPER)
    for id_, start in LEADING.items():
        assert groups[id_].lines[0].name.startswith(start)


def test_all_glyphs_share_one_scale_with_the_reference_in_the_middle(samples):
    for group in claim_groups(analyse(samples)):
        for line in filter(lambda line: line.glyph, group.lines):
            assert 0 <= line.glyph.low <= line.glyph.value <= line.glyph.high <= 100
            assert (line.glyph.value > 50) == (line.leading.value > line.reference)


def test_the_first_answers_of_each_outcome_are_chosen_in_any_order(samples):
    tables = list(tabulate(samples).values())
    chosen = choose(samples, tables)
    assert {id(s) for s in chosen} == {id(s) for s in choose(samples[::-1], tables)}
    cells = {}
    for s in samples:
        cells.setdefault((s.split, s.problem_id, s.alpha, s.outcome), []).append(s.index)
    found = {}
    for s in chosen:
        found.setdefault((s.split, s.problem_id, s.alpha, s.outcome), []).append(s.index)
    assert {cell: sorted(i) for cell, i in found.items()} == {
        cell: sorted(i)[:MOST] for cell, i in cells.items()
    }


def test_packed_answers_fill_the_budget_problem_by_problem_and_never_exceed_it(samples):
    tables = list(tabulate(samples).values())
    answers = [pages.answer(s) for s in choose(samples, tables)]
    whole = pack(answers, tables, pages.problems(samples))
    assert whole.held == len(answers)
    assert whole.total == len(samples)
    size = sum(len(text) for texts in whole.blocks.values() for text in texts)
    half = pack(answers, tables, pages.problems(samples), size // 2)
    assert 0 < half.held < whole.held
    assert sum(len(text) for texts in half.blocks.values() for text in texts) <= size // 2
    first = json.loads(zlib.decompress(base64.b64decode(whole.blocks[0, 0][1])))
    member, index, outcome, *_ = first["answers"][0]
    assert Sample in {type(s) for s in samples}
    assert any(
        s.index == index and s.outcome is OUTCOMES[outcome] and tables[0].members[member] == s.member
        for s in samples
        if s.problem_id == tables[0].problem_ids[0] and s.split == tables[0].split
    )


def test_a_very_long_program_is_cut_and_says_so(samples):
    counts = tabulate(samples)["hard"]
    sample = next(s for s in samples if s.split == "hard" and s.program_sha256)
    archive = pack([Answer(sample, "x" * (LONGEST + 7))], [counts], {})
    (texts,) = archive.blocks.values()
    program = json.loads(zlib.decompress(base64.b64decode(texts[0])))["answers"][0][4]
    assert program.endswith("x\n[7 more characters are not in this page]")


def test_svg_files_are_deterministic(samples, tmp_path):
    found = frontier(tabulate(samples)["hard"])
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save(frontier_figure(found), tmp_path / name / "frontier.svg")
    assert (tmp_path / "a/frontier.svg").read_bytes() == (tmp_path / "b/frontier.svg").read_bytes()


def test_figures_survive_thin_data(tmp_path):
    save(training_figure([{"run": "a", "step": 0}]), tmp_path / "training.png")
    rows = [Sample("p", "s", 0.0, 0, Outcome.CORRECT)]
    save(frontier_figure(frontier(tabulate(rows)["s"])), tmp_path / "frontier.png")


def test_a_comparison_shows_only_settings_that_differ(samples, tmp_path):
    splits = analyse(samples)
    one = Result("one", splits, {"seed": 0, "rl": {"steps": 4}})
    other = Result("<two>", {"hard": splits["hard"]}, {"seed": 1, "rl": {"steps": 4}, "extra": None})
    text = write_comparison(tmp_path, [one, other]).read_text()
    assert "&lt;two&gt;" in text
    assert "not sampled" in text
    assert "this run has no such split" in text
    assert differences([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1"}]) == [("b", ["2", "3", None])]
    assert "rl.steps" not in text
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {
        f"{split}-frontiers.{suffix}" for split in ("hard", "-easy---co-") for suffix in ("png", "svg")
    }


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a"], "needs 2 to 6 runs, not 1"), (["a", "b", "a"], "two runs have the name 'a'")],
)
def test_a_comparison_of_one_or_of_namesakes_is_refused(samples, tmp_path, names, message):
    splits = analyse(samples)
    with pytest.raises(UserError, match=message):
        write_comparison(tmp_path / "out", [Result(name, splits) for name in names])
    assert not (tmp_path / "out").exists()


def test_names_of_measures_are_typeset():
    assert typeset("solve rate lost at alpha -0.5, high - low") == "solve rate lost at α = −0.5, high − low"
    assert typeset("split-half null") == "split-half null"


def test_nested_settings_become_rows():
    assert flatten({"a": {"b": 1, "c": [1, None]}, "d": None, "e": 0.25}) == [
        ("a.b", "1"), ("a.c", "1, not set"), ("d", "not set"), ("e", "0.25")
    ]  # fmt: skip


def test_tables(samples):
    console = Console(width=130, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    splits = analyse(samples)
    console.print(outcome_table(splits["hard"]))
    console.print(claims_table(splits))
    text = console.export_text()
    assert "low 0" in text
    assert "high 1" in text
    assert "hard: 26 problems, 8 answers each" in text
    assert "cannot tell" in text


def test_each_claim_is_one_line_for_each_split_at_the_width_of_a_terminal(samples):
    splits = analyse(samples)
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(claims_table(splits))
    _title, _header, *lines, _caption = console.export_text().rstrip().splitlines()
    assert len(lines) == sum(len(split.claims) for split in splits.values())
    claim = next(c for c in splits["hard"].claims if c.id == "ensemble")
    (line,) = [line for line in lines if line.split()[:2] == ["ensemble", "hard"]]
    assert str(claim.measured["ensemble - single"]) in line


def test_budget_grid():
    assert budget_grid(1) == (1,)
    assert budget_grid(24) == (1, 2, 5, 10, 24)
    assert budget_grid(250) == (1, 2, 5, 10, 20, 50, 100, 250)


def test_importing_eval_is_light():
    heavy = "('torch', 'matplotlib', 'scipy', 'jinja2', 'rich', 'transformers')"
    code = f"import sys, cef_env.eval; sys.exit(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
