"""Studies: several processes, kills, refusals. The models are hardly trained; all else is real."""

import json
import signal
import time
from pathlib import Path

import pytest
import yaml

from cef_env.errors import UserError
from cef_env.experiment.study import FILE, Study, claim_study, is_study, load_study, read_study
from cef_env.experiment.study_report import write_results
from tests.test_experiment import start

TINY = {
    "study": "tiny",
    "base": {
        "graded": True,
        "max_new_tokens": 24,
        "model": {"hidden_size": 32, "intermediate_size": 64, "layers": 1, "heads": 2, "kv_heads": 2},
        "tokenizer": {"problems": 100},
        "sft": {"steps": 20, "batch_size": 16, "warmup_steps": 2, "save_every": 5},
        "rl": {"steps": 2, "problems_per_step": 2, "group_size": 3, "save_every": 1},
        "sweep": {"alphas": [-0.5, 0, 0.5, 1, 1.5], "problems": {"hard": 20}, "samples": 2},
    },
    "cells": {"one": {"seeds": [0, 1], "config": {"variants": {"coverage 4": {"coverage": 4}}}}},
}


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    return path


def test_two_processes_share_the_runs_and_a_killed_one_is_continued(study_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, second = start(study_file, out), start(study_file, out)
    deadline = time.monotonic() + 240
    while not list(out.glob("one/seed-*/rl_low")):  # the warm start is there, runs have begun
        assert time.monotonic() < deadline, "no run began"
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    third = start(study_file, out)
    for process in (second, third):  # they come to the end together, and both write or wait
        assert process.wait(400) == 0, process.stderr and process.stderr.read().decode()
    found = json.loads((out / "results" / "claims.json").read_text())
    assert found["missing"] == []
    assert list(found["splits"]) == ["hard"]
    hard = found["splits"]["hard"]
    assert hard["cells"]["one"]["seeds"] == [0, 1]
    assert [claim["letter"] for claim in hard["claims"]] == list("abcdefghijk")
    warm = [json.loads((out / "one" / f"seed-{s}" / "config.json").read_text())["warm_start"] for s in (0, 1)]
    assert warm == ["../warm/sft/model"] * 2
    assert not (out / "one" / "seed-0" / "sft").exists()
    samples = [(out / "one" / f"seed-{s}" / "sweep" / "samples.jsonl").read_bytes() for s in (0, 1)]
    assert samples[0] != samples[1]
    again = tmp_path / "again"
    write_results(out, again)
    assert (again / "claims.json").read_bytes() == (out / "results" / "claims.json").read_bytes()
    assert 'src="http' not in (again / "report.html").read_text()


def test_a_wrong_field_of_a_cell_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(TINY | {"cells": {"one": {"seeds": [0], "config": {"rl": {"step": 3}}}}}))
    with pytest.raises(UserError, match=r"wrong\.yaml.*rl\.step"):
        load_study(str(path))
    path.write_text(yaml.safe_dump(TINY | {"cells": {"one": {"seeds": [1, 1]}}}))
    with pytest.raises(UserError, match=r"cells\.one\.seeds: a seed is given twice"):
        load_study(str(path))


def test_a_folder_belongs_to_one_study(study_file: Path, tmp_path: Path) -> None:
    study = load_study(str(study_file))
    claim_study(study, tmp_path / "out")
    (tmp_path / "out" / "one").mkdir()
    claim_study(study, tmp_path / "out")
    for other in (TINY | {"seed": 1}, TINY | {"cells": {"two": {"seeds": [0]}}}):
        with pytest.raises(UserError, match="holds another study"):
            claim_study(Study.model_validate(other), tmp_path / "out")


def test_a_study_grows_by_cells_and_seeds_and_does_not_shrink(study_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    claim_study(load_study(str(study_file)), out)
    (out / "one").mkdir()
    one = TINY["cells"]["one"]  # type: ignore[index]
    grown = Study.model_validate(TINY | {"cells": {"one": one | {"seeds": [0, 1, 2]}, "two": {"seeds": [0]}}})
    claim_study(grown, out)
    assert read_study(out) == grown
    without = Study.model_validate(TINY | {"cells": {"one": one | {"seeds": [0, 1, 2]}}})  # two has not begun
    claim_study(without, out)
    assert read_study(out) == without
    with pytest.raises(UserError, match="holds another study"):
        claim_study(load_study(str(study_file)), out)


def test_nothing_is_reported_of_a_study_that_has_not_begun(study_file: Path, tmp_path: Path) -> None:
    claim_study(load_study(str(study_file)), tmp_path / "out")
    assert (tmp_path / "out" / FILE).is_file()
    with pytest.raises(UserError, match=r"no run of .* is done yet"):
        write_results(tmp_path / "out", tmp_path / "results")


def test_every_study_of_the_package_is_valid() -> None:
    for name in ("full", "smoke_study"):
        assert is_study(name)
        study = load_study(name)
        for cell in study.cells:
            assert study.config(cell, 1).sweep.problem_seed == study.seed


def test_all_runs_of_a_cell_have_the_same_problems_and_other_seeds() -> None:
    study = load_study("full")
    first, second = (study.config("reasoning-small", seed) for seed in (0, 1))
    assert first.seed != second.seed
    assert first.sweep == second.sweep
    assert first.warm_start == second.warm_start is not None
