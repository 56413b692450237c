"""ICPC/Kattis packages of both forms: settings, flags, validators, submissions, hostile or damaged ones."""

import os
from pathlib import Path

import pytest

from cef_env.errors import UserError
from cef_env.problems import Problem, TestCase, load
from cef_env.problems.icpc_submissions import _matches
from tests.problems.formats import (
    DOUBLE_CPP,
    DOUBLE_PY,
    LEGACY_YAML,
    MODERN_YAML,
    STATEMENT,
    VALIDATOR_PY,
    legacy_package,
    modern_package,
    tree,
)


def one(path: Path) -> Problem:
    (problem,) = load(f"icpc:{path}")
    return problem


def test_a_legacy_package(tmp_path: Path) -> None:
    problems = load(f"icpc:{legacy_package(tmp_path / 'double')}")
    (problem,) = problems
    assert (problem.id, problem.title, problem.source) == ("double", "Double", "A Contest 2023")
    assert (problem.time_limit_s, problem.memory_limit_mb, problem.checker) == (1.0, 512, "tokens")
    assert problem.tests == (
        TestCase("3\n", "6\n", sample=True),
        TestCase("5\n", "10\n"),
        TestCase("123456789012\n", "246913578024\n"),
    )
    assert problem.statement.startswith(f"Double\n\n{STATEMENT}\n\nSample Input 1\n\n3\n")
    assert problems.skipped == {"submissions in .java": 1}


def test_a_package_of_2025_09(tmp_path: Path) -> None:
    problem = one(modern_package(tmp_path / "doubleit"))
    assert (problem.id, problem.title, problem.checker) == ("doubleit", "Double It", "tokens?case=ignore")
    assert (problem.time_limit_s, problem.memory_limit_mb) == (1.0, 256)
    assert "It is at most 1000." in problem.statement
    assert "{{" not in problem.statement


def test_a_folder_of_packages(tmp_path: Path) -> None:
    legacy_package(tmp_path / "a")
    modern_package(tmp_path / "b")
    (tmp_path / "notes").mkdir()
    assert load(f"icpc:{tmp_path}").ids == ("a", "b")


def test_what_is_expected_of_submissions(tmp_path: Path) -> None:
    wrong, late, crash = ("wrong_answer", "output_limit"), ("time_limit",), ("runtime_error", "memory_limit")
    expected = {
        ("accepted", "cpp17"): (("correct",), ("accepted",), ()),
        ("accepted", "python"): (("correct",), ("accepted",), ()),
        ("wrong_answer", "python"): (("correctness_failure",), ("accepted", *wrong), wrong),
        ("time_limit_exceeded", "python"): (("optimization_failure",), ("accepted", *late), late),
        ("run_time_error", "cpp17"): (("correctness_failure",), ("accepted", *crash), crash),
        ("mixed", "python"): (("optimization_failure",), ("accepted", *wrong, *late), late),
    }
    problem = one(modern_package(tmp_path / "p"))
    got = {(s.kind, s.language): (s.expected, s.permitted, s.required) for s in problem.submissions}
    assert got == expected


@pytest.mark.parametrize(
    ("settings", "outcomes"),
    [
        ("", ()),
        ("odd:\n  permitted: [AC]\n", ("correct",)),
        ("odd:\n  required: [WA, TLE]\n", ("correctness_failure", "optimization_failure")),
        ("odd/*.py:\n  permitted: [AC, RTE]\n", ("correct", "correctness_failure")),
        ("'{odd,even}/x.{py,cpp}':\n  permitted: [AC, TLE]\n  required: [TLE]\n", ("optimization_failure",)),
        ("odd/*:\n  authors: Someone\n", ()),
    ],
)
def test_submissions_yaml(tmp_path: Path, settings: str, outcomes: tuple[str, ...]) -> None:
    files = {"submissions/odd/x.py": DOUBLE_PY, "submissions/submissions.yaml": settings}
    problem = one(legacy_package(tmp_path / "p", files))
    (odd,) = (s for s in problem.submissions if s.kind == "odd")
    assert odd.expected == outcomes


@pytest.mark.parametrize(
    ("tag", "outcomes"),
    [
        ("# @EXPECTED_RESULTS@: TIMELIMIT", ("optimization_failure",)),
        (
            "/* @EXPECTED_RESULTS@: WRONG-ANSWER, TIMELIMIT */",
            ("correctness_failure", "optimization_failure"),
        ),
        ("# @EXPECTED_RESULTS@: CORRECT, TIMELIMIT", ("correct", "optimization_failure")),
        ("# @EXPECTED_RESULTS@: COMPILER-ERROR", ()),
        ("# @EXPECTED_RESULTS@: ", ()),
    ],
)
def test_a_tag_says_what_an_unknown_folder_does_not(
    tmp_path: Path, tag: str, outcomes: tuple[str, ...]
) -> None:
    files = {"submissions/mixed/x.py": f"{tag}\n{DOUBLE_PY}", "submissions/accepted/x.py": tag}
    problem = one(legacy_package(tmp_path / "p", files))
    (mixed,) = (s for s in problem.submissions if s.kind == "mixed")
    assert mixed.expected == outcomes
    assert {s.expected for s in problem.submissions if s.kind == "accepted"} == {("correct",)}


def test_the_pattern_of_a_folder_replaces_its_default_and_others_add_to_it(tmp_path: Path) -> None:
    settings = (
        "time_limit_exceeded:\n  permitted: [AC, WA, TLE]\n  required: [TLE]\n"
        "wrong_answer/*:\n  permitted: [AC, WA, TLE]\n"
    )
    problem = one(legacy_package(tmp_path / "p", {"submissions/submissions.yaml": settings}))
    permitted = {s.kind: s.permitted for s in problem.submissions}
    assert "wrong_answer" in permitted["time_limit_exceeded"]
    assert "time_limit" not in permitted["wrong_answer"]


@pytest.mark.parametrize(
    ("glob", "path", "match"),
    [
        ("accepted", "accepted/a.py", True),
        ("accepted/*", "accepted/a.py", True),
        ("*/a.py", "accepted/a.py", True),
        ("*", "accepted/a.py", True),
        ("a*y", "accepted/a.py", False),
        ("accepted/{a,b}.{py,cpp}", "accepted/b.cpp", True),
        ("accepted/{a,b}.py", "accepted/c.py", False),
        ("accepted/a?py", "accepted/a.py", True),
        ("accepted/.*", "accepted/a.py", False),
        ("{" * 3000, "accepted/a.py", False),
        ("{a,b}" * 40, "accepted/a.py", False),
    ],
)
def test_globs(glob: str, path: str, match: bool) -> None:
    assert _matches(glob, path) is match


def test_submissions_that_cannot_be_judged_are_counted(tmp_path: Path) -> None:
    files = {
        "submissions/accepted/two/a.py": "",
        "submissions/accepted/two/b.py": "",
        "submissions/accepted/folder/main.cpp": DOUBLE_CPP,
        "submissions/accepted/c.c": "int main() {}",
        "submissions/accepted/old.py": "#!/usr/bin/env python2\nprint 1",
        "submissions/README.md": "",
    }
    problems = load(f"icpc:{legacy_package(tmp_path / 'p', files)}")
    assert problems.skipped == {
        "submissions in .java": 1,
        "submissions in .c": 1,
        "submissions in python2": 1,
        "submissions of several files": 1,
    }
    assert [s.program for s in problems[0].submissions].count(DOUBLE_CPP) == 2


@pytest.mark.parametrize(
    ("flags", "checker"),
    [
        ("", "tokens?case=ignore"),
        ("case_sensitive", "tokens"),
        ("space_change_sensitive case_sensitive", "lines"),
        ("float_tolerance 1e-6 case_sensitive", "floats?abs=1e-6&rel=1e-6"),
        ("float_absolute_tolerance 1e-4", "floats?abs=1e-4&case=ignore"),
        ("float_relative_tolerance 0.01 float_absolute_tolerance 2", "floats?abs=2&rel=0.01&case=ignore"),
    ],
)
def test_flags_of_the_default_validator(tmp_path: Path, flags: str, checker: str) -> None:
    from cef_env.judge.checkers import get_checker

    legacy = LEGACY_YAML.replace("validator_flags: case_sensitive", f"validator_flags: {flags}")
    assert one(legacy_package(tmp_path / "a", {"problem.yaml": legacy})).checker == checker
    group = f"output_validator_args: [{', '.join(flags.split())}]\n"
    groups = {f"data/{part}/test_group.yaml": group for part in ("sample", "secret")}
    assert one(modern_package(tmp_path / "b", groups)).checker == checker
    get_checker(checker)


def test_legacy_flags_of_groups_are_added(tmp_path: Path) -> None:
    files = {"data/testdata.yaml": "output_validator_flags: float_tolerance 1e-3\n"}
    files |= {f"data/{part}/testdata.yaml": "output_validator_flags: float_tolerance 1e-3\n"
              for part in ("sample", "secret")}  # fmt: skip
    assert one(legacy_package(tmp_path / "p", files)).checker == "floats?abs=1e-3&rel=1e-3"


VALIDATE_H = "#pragma once\nstatic const int ACCEPT = 42;\n"
VALIDATE_CPP = '#include "validate.h"\nint main() { return ACCEPT; }\n'


def test_custom_validators_become_checker_programs(tmp_path: Path) -> None:
    legacy = LEGACY_YAML.replace("validation: default", "validation: custom")
    files = {"problem.yaml": legacy, "output_validators/check/validate.cpp": VALIDATE_CPP}
    files["output_validators/check/validate.h"] = VALIDATE_H
    program = one(legacy_package(tmp_path / "a", files)).checker_program
    assert program is not None
    assert (program.style, program.language, program.arguments) == ("icpc", "cpp17", ("case_sensitive",))
    assert "ACCEPT = 42" in program.source
    assert '"validate.h"' not in program.source
    problem = one(modern_package(tmp_path / "b", {"output_validator/validate.py": VALIDATOR_PY}))
    assert problem.checker_program is not None
    assert (problem.checker, problem.checker_program.language) == ("icpc", "python")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"problem.yaml": MODERN_YAML.replace("pass-fail", "interactive")}, "interactive"),
        ({"problem.yaml": MODERN_YAML.replace("pass-fail", "[pass-fail, multi-pass]")}, "multi-pass"),
        ({"problem.yaml": MODERN_YAML.replace("pass-fail", "scoring")}, "scoring"),
        ({"problem.yaml": MODERN_YAML.replace("pass-fail", "submit-answer")}, "submit-answer"),
        ({"problem.yaml": LEGACY_YAML.replace("default", "custom interactive")}, "interactive"),
        ({"problem.yaml": LEGACY_YAML.replace("default", "custom score")}, "scoring"),
        ({"include/python3/x.py": ""}, "code that is included with submissions"),
        ({"data/secret/3.in": "1", "data/secret/3.ans": "2", "data/secret/3.files/a": "x"},
         "tests with files or arguments"),
        ({"data/secret/2-big.yaml": "args: [x]"}, "tests with files or arguments"),
        ({"data/secret/2-big.yaml": "output_validator_args: [case_sensitive]"},
         "validator flags that differ between tests"),
        ({"output_validator/build": "", "output_validator/a.cpp": ""}, "unknown checker"),
        ({"output_validator/a.java": ""}, "unknown checker"),
        ({"output_validator/a.py": "", "output_validator/b.py": ""}, "unknown checker"),
    ],
)  # fmt: skip
def test_what_is_left_out(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    problems = load(f"icpc:{modern_package(tmp_path / 'p', files)}")
    assert len(problems) == 0
    assert problems.skipped == {reason: 1}


def test_a_statement_that_is_only_a_pdf(tmp_path: Path) -> None:
    package = legacy_package(tmp_path / "p")
    (package / "problem_statement" / "problem.en.tex").rename(
        package / "problem_statement" / "problem.en.pdf"
    )
    assert load(f"icpc:{package}").skipped == {"statement is only a PDF, or missing": 1}


@pytest.mark.parametrize(
    ("files", "seconds"),
    [
        ({"domjudge-problem.ini": "timelimit='3.5'\ncolor = #ff0000\n", ".timelimit": ""}, 3.5),
        ({".timelimit": "4"}, 4.0),
        ({"problem.yaml": LEGACY_YAML + "  time_limit: 6\n"}, 6.0),
    ],
)
def test_where_a_time_limit_may_stand(tmp_path: Path, files: dict[str, str], seconds: float) -> None:
    assert one(legacy_package(tmp_path / "p", files)).time_limit_s == seconds


def test_a_package_without_a_time_limit_says_so(tmp_path: Path) -> None:
    package = legacy_package(tmp_path / "p")
    (package / ".timelimit").unlink()
    problems = load(f"icpc:{package}")
    assert problems[0].time_limit_s == 2.0
    assert problems.skipped["no time limit in the package: 2 s are used (not skipped)"] == 1


BOMB = (
    "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    + "accepted:\n  permitted: [*a11]\n"
)  # ten to the twelfth values when written out


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"problem.yaml": "a: [", }, r"problem\.yaml: not YAML"),
        ({"problem.yaml": "[1]"}, r"problem\.yaml: the record must be an object, not list"),
        ({"problem.yaml": "name: 3"}, r"problem\.yaml: field name must be a text"),
        ({"problem.yaml": "type: exam"}, "field type has the unknown value 'exam'"),
        ({"problem.yaml": "type: [[pass-fail]]"}, "field type has the unknown value list"),
        ({"submissions/submissions.yaml": BOMB}, "has the unknown verdict list"),
        ({"problem.yaml": "validation: magic"}, "field validation must be default or custom, not 'magic'"),
        ({"problem.yaml": "validation: custom"}, "asks for a custom validator, but"),
        ({"problem.yaml": "limits: 3"}, "limits must be an object, not int"),
        ({"problem.yaml": "limits:\n  time_limit: soon"}, r"limits\.time_limit must be a number, not str"),
        ({"problem.yaml": "limits:\n  memory: -3"}, "memory_limit_mb=-3"),
        ({"problem.yaml": "validator_flags: warp"}, "field validator_flags has the unknown flag 'warp'"),
        ({"problem.yaml": "validator_flags: float_tolerance x"}, "needs a number after float_tolerance"),
        ({"problem.yaml": "validator_flags: '\"'"}, "has unbalanced quotes"),
        ({"problem.yaml": "!!python/object/apply:os.system ['true']"}, r"problem\.yaml: not YAML"),
        ({".timelimit": "fast"}, r"\.timelimit: the time limit must be seconds"),
        ({"data/secret/9.in": "1"}, r"9\.ans: is missing, but there is 9\.in"),
        ({"submissions/submissions.yaml": "accepted:\n  permitted: [OK]"}, "has the unknown verdict 'OK'"),
        ({"submissions/submissions.yaml": "accepted: 3"}, r"submissions\.yaml: field accepted must be"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    package = legacy_package(tmp_path / "p", files)
    with pytest.raises(UserError, match=message) as caught:
        load(f"icpc:{package}")
    assert str(package) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert load(f"icpc:{package}", skip_bad=True).skipped == {"broken": 1}


@pytest.mark.parametrize(
    "name",
    [
        "data/secret/2-big.in",
        "submissions/accepted/double.py",
        "problem_statement/problem.en.tex",
        "problem.yaml",
    ],
)
def test_links_out_of_a_package_are_refused(tmp_path: Path, name: str) -> None:
    package = legacy_package(tmp_path / "p")
    secret = tmp_path / "secret"
    secret.write_text("private")
    (package / name).unlink()
    (package / name).symlink_to(secret)
    with pytest.raises(UserError, match="leads out of the package; copy the file into it"):
        load(f"icpc:{package}")


def test_linked_folders_and_links_inside(tmp_path: Path) -> None:
    package = legacy_package(tmp_path / "p")
    (package / "data" / "secret" / "away").symlink_to(tmp_path)
    with pytest.raises(UserError, match="away: leads out of the package"):
        load(f"icpc:{package}")
    (package / "data" / "secret" / "away").unlink()
    tree(package, {"attachments/3.in": "7\n", "data/secret/3.ans": "14\n"})
    (package / "data" / "secret" / "3.in").symlink_to("../../attachments/3.in")
    assert TestCase("7\n", "14\n") in one(package).tests


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    package = legacy_package(tmp_path / "p")
    (package / "data" / "secret" / "2-big.in").unlink()
    os.mkfifo(package / "data" / "secret" / "2-big.in")
    with pytest.raises(UserError, match="not a regular file"):
        load(f"icpc:{package}")


def test_constants_that_are_no_text_stay_as_they_are(tmp_path: Path) -> None:
    text = BOMB.replace("accepted:\n  permitted: [*a11]\n", "constants:\n  most: *a11\n")
    package = modern_package(tmp_path / "p", {"problem.yaml": f"limits: {{time_limit: 1}}\n{text}"})
    assert "{{most}}" in one(package).statement


def test_tests_that_are_not_utf_8_keep_their_bytes(tmp_path: Path) -> None:
    package = legacy_package(tmp_path / "p")
    (package / "data" / "secret" / "2-big.in").write_bytes(b"\xff\xfe\n")
    assert any(test.input == "\udcff\udcfe\n" for test in one(package).tests)


def test_a_package_that_changes_is_read_again(tmp_path: Path) -> None:
    package = legacy_package(tmp_path / "p")
    problems = load(f"icpc:{package}")
    tree(package, {"data/secret/4.in": "8\n", "data/secret/4.ans": "16\n"})
    with pytest.raises(UserError, match="the file changed after it was opened; load it again"):
        problems.get("p")
    assert len(one(package).tests) == 4
