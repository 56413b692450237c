"""Answers from elsewhere, counts for elsewhere, and the two outcome rules."""

import csv
import json

import pytest

from cef_env.errors import UserError
from cef_env.eval import Member, read_tables
from cef_env.eval.exporting import COLUMNS, write_csv, write_parquet
from cef_env.eval.importing import import_answers, plan_import, read_answers
from cef_env.eval.rules import compare_rules
from cef_env.eval.tables import iter_folder
from cef_env.judge import Judge, Outcome
from cef_env.problems import Problem, ProblemSet, TestCase


@pytest.fixture(scope="module")
def problems():
    """Two problems that ask to double a number."""
    double = tuple(TestCase(f"{n}\n", f"{2 * n}\n") for n in (1, 12, 123))
    mixed = tuple(TestCase(f"{n}\n", f"{2 * n}\n") for n in (1, 100, 1000))
    return ProblemSet.of(
        [
            Problem("double", "double", "Double.", double, 0.3, difficulty="easy"),
            Problem("mixed", "mixed", "Double.", mixed, 0.3, difficulty="hard"),
        ],
        "toy",
    )


@pytest.fixture(scope="module")
def judge():
    with Judge(workers=2) as judge:
        yield judge


def quiet(done, total, note):
    """Progress that nobody sees."""


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("lcb", "[" * 100_000, "not JSON"),
        ("jsonl", "[" * 100_000 + "\n", "line 1 is not JSON"),
        ("lcb", '[{"question_id": "double", "code_list": []}]', "entry 0: code_list is empty"),
        ("jsonl", '{"problem_id": "double", "program": "x", "alpha": 1, "label": "q"}', "alpha and label"),
        ("jsonl", '{"problem_id": "double", "program": "x", "alpha": 1e308}', "from -10000 to 10000"),
    ],
)
def test_a_file_that_would_lose_or_break_something_is_refused(tmp_path, form, text, message):
    file = tmp_path / "answers"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        read_answers([str(file)], form, Member(0.0))


def test_a_label_that_is_a_number_is_an_alpha(tmp_path):
    file = tmp_path / "answers"
    file.write_text('{"problem_id": "double", "program": "x", "label": "0.5"}\n')
    assert list(read_answers([str(file)], "jsonl", Member(0.0))) == [Member(0.5)]


def test_livecodebench_output_becomes_a_sweep(tmp_path, problems, judge):
    file = tmp_path / "output.json"
    rows = [
        {"question_id": "double", "code_list": ["print(2 * int(input()))", "print(1)", ""], "pass@1": 0.3},
        {"question_id": "mixed", "code_list": ["print(2 * int(input()))"]},
    ]
    file.write_text(json.dumps(rows))
    answers = read_answers([str(file), f"0.5={file}"], "lcb", Member(1.0))
    out = tmp_path / "sweep"
    import_answers(answers, problems, "toy", out, judge, quiet)
    (counts,) = read_tables(out).values()
    assert counts.alphas == (0.5, 1.0)
    assert counts.n.tolist() == [[3, 1], [3, 1]]
    assert counts.correct.tolist() == [[1, 1], [1, 1]]
    assert counts.rate(Outcome.FORMAT_ERROR)[0].tolist() == [1 / 3, 0]
    assert counts.difficulties == ("easy", "hard")
    before = (out / "samples.jsonl").read_bytes()
    import_answers(answers, problems, "toy", out, judge, quiet)
    assert (out / "samples.jsonl").read_bytes() == before
    answers[Member(1.0)]["double"][1] = "print(3)"
    with pytest.raises(UserError, match=r"another sweep \(key config.answers differs\)"):
        import_answers(answers, problems, "toy", out, judge, quiet)


def test_json_lines_with_alphas_and_labels(tmp_path):
    file = tmp_path / "answers.jsonl"
    rows = [
        {"problem_id": "double", "alpha": -0.5, "program": "print(1)"},
        {"problem_id": "double", "label": "base", "program": None},
        {"problem_id": "double", "program": "x"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = read_answers([str(file)], "jsonl", Member(0.0))
    assert {m.name: dict(found) for m, found in answers.items()} == {
        "alpha -0.5": {"double": ["print(1)"]},
        "base": {"double": [None]},
        "alpha 0": {"double": ["x"]},
    }


@pytest.mark.parametrize(
    ("form", "text", "match"),
    [
        ("lcb", "{", "not JSON"),
        ("lcb", "{}", "not a JSON list"),
        ("lcb", '[{"code_list": []}]', "entry 0 has no field 'question_id'"),
        ("lcb", '[{"question_id": "double", "code_list": [1]}]', r"code_list\[0\] is not text"),
        (
            "lcb",
            '[{"question_id": "a", "code_list": [""]}, {"question_id": "a", "code_list": [""]}]',
            "twice",
        ),
        ("lcb", "[]", "hold no answer"),
        ("jsonl", '{"problem_id": "double", "program": "x"}\n{"probl', "line 2 .* half written"),
        ("jsonl", "3\n", "line 1 is not a JSON object"),
        ("jsonl", '{"problem_id": "double"}\n', "no field 'program'"),
        (
            "jsonl",
            '{"problem_id": "double", "program": "x", "alpha": "high"}\n',
            "alpha 'high' is not a number",
        ),
        ("jsonl", '{"problem_id": "nothing", "program": "x"}\n', "problem 'nothing' .* does not hold"),
        ("xml", "", "use lcb or jsonl"),
    ],
)
def test_bad_files_are_named(form, text, match, tmp_path, problems):
    file = tmp_path / "answers"
    file.write_text(text)
    with pytest.raises(UserError, match=match):
        plan_import(read_answers([str(file)], form, Member(0.0)), problems, "toy")


def test_export_is_one_row_per_member_and_problem(tmp_path, problems, judge):
    answers = {
        Member(0.0): {"double": ["print(1)"], "mixed": [None]},
        Member(None, "base"): {"double": ["x"], "mixed": ["y"]},
    }
    out = tmp_path / "sweep"
    import_answers(answers, problems, "toy", out, judge, quiet)
    tables = read_tables(out)
    write_csv(tables, tmp_path / "counts.csv")
    write_parquet(tables, tmp_path / "counts.parquet")
    with (tmp_path / "counts.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == COLUMNS
    assert [(r["member"], r["alpha"], r["problem_id"], r["answers"], r["no_code"]) for r in rows] == [
        ("alpha 0", "0.0", "double", "1", "0"),
        ("alpha 0", "0.0", "mixed", "1", "1"),
        ("base", "", "double", "1", "0"),
        ("base", "", "mixed", "1", "0"),
    ]
    from pyarrow import parquet

    table = parquet.read_table(tmp_path / "counts.parquet").to_pylist()
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in table] == rows


def test_rules_differ_where_a_wrong_answer_follows_an_exceeded_limit(tmp_path, judge):
    """The program is slow on 100 and wrong on 1000: the first failure says slow, all failures say wrong."""
    program = "n = int(input())\nwhile n == 100: pass\nprint(n if n == 1000 else 2 * n)"
    tests = tuple(TestCase(f"{n}\n", f"{2 * n}\n") for n in (1, 100, 1000))
    problems = ProblemSet.of([Problem("p", "p", "Double.", tests, 0.3)], "toy")
    answers = {Member(0.0): {"p": [program, "print(2 * int(input()))", None]}}
    import_answers(answers, problems, "toy", tmp_path, judge, quiet)
    assert next(iter_folder(tmp_path)).outcome is Outcome.OPTIMIZATION_FAILURE
    (found,) = compare_rules(tmp_path, {"toy": problems}, judge, quiet).values()
    assert found.answers == {
        (Outcome.OPTIMIZATION_FAILURE, Outcome.CORRECTNESS_FAILURE): 1,
        (Outcome.CORRECT, Outcome.CORRECT): 1,
        (Outcome.FORMAT_ERROR, Outcome.FORMAT_ERROR): 1,
    }
    assert found.agreement == 2 / 3
    data = json.loads((tmp_path / "rules.json").read_text())
    assert data["toy"]["members"]["alpha 0"]["answers"][1] == [0, 0, 1, 0]
    before = (tmp_path / "verdicts.exhaustive.jsonl").read_bytes()
    compare_rules(tmp_path, {"toy": problems}, judge, quiet)
    assert (tmp_path / "verdicts.exhaustive.jsonl").read_bytes() == before
    (tmp_path / "verdicts.exhaustive.jsonl").unlink()
    with pytest.raises(UserError, match="has a split 'toy'"):
        compare_rules(tmp_path, {}, judge, quiet)
