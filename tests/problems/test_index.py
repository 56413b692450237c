"""The index: nothing is read twice, nothing stale or damaged is believed, bad records are named."""

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from cef_env.errors import UserError
from cef_env.problems import load, records
from cef_env.problems.index import BrokenRecordError
from tests.problems.formats import (
    apps,
    codecontests,
    codecontests_plus,
    lcb,
    taco,
    write_arrow,
    write_lines,
    write_parquet,
)

KINDS = {
    "lcb": (lcb, "test.jsonl", write_lines),
    "codecontests+": (codecontests_plus, "data.parquet", write_parquet),
    "codecontests": (codecontests, "data.parquet", write_parquet),
    "apps": (apps, "data.arrow", write_arrow),
}
kinds = pytest.mark.parametrize("kind", sorted(KINDS))


def source(kind: str, folder: Path, count: int = 7) -> str:
    make, name, write = KINDS[kind]
    write(folder / name, [make(number if kind == "apps" else f"p{number}") for number in range(count)])
    return f"{kind}:{folder / name}"


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were gone through."""
    pytest.importorskip("pyarrow")
    from cef_env.problems import arrow_records

    seen: list[Path] = []
    for kind in (records.JsonLines, arrow_records.ParquetRows, arrow_records.ArrowRows):
        original = kind.scan

        def scan(self: Any, original: Any = original) -> Any:
            seen.append(self.path)
            return original(self)

        monkeypatch.setattr(kind, "scan", scan)
    return seen


@kinds
def test_a_second_load_reads_no_record(tmp_path: Path, kind: str, scans: list[Path]) -> None:
    name = source(kind, tmp_path)
    first = load(name)
    fetched = list(first)
    again = load(name)
    assert again.ids == first.ids
    assert len(scans) == 1
    assert [again.outline(id_).levels for id_ in again.ids] == [problem.levels for problem in fetched]
    assert [again.outline(id_).tests for id_ in again.ids] == [len(problem.tests) for problem in fetched]
    assert {again.smallest_level(id_) for id_ in again.ids} == {1}
    assert again.skipped == first.skipped
    assert [again.get(id_) for id_ in reversed(again.ids)] == fetched[::-1]
    assert len(scans) == 1


@kinds
def test_a_changed_file_is_read_again_and_not_mixed_with_the_old(tmp_path: Path, kind: str) -> None:
    name = source(kind, tmp_path)
    old = load(name)
    source(kind, tmp_path, 9)
    os.utime(name.partition(":")[2], ns=(1, 1))
    with pytest.raises(UserError, match="the file changed after it was opened; load it again"):
        old.get(old.ids[0])
    assert len(load(name)) == 9


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "folder", "version"])
def test_a_damaged_index_is_made_again(tmp_path: Path, cache: Path, scans: list[Path], damage: str) -> None:
    name = source("lcb", tmp_path)
    ids = load(name).ids
    (entry,) = cache.iterdir()
    data = entry.read_bytes()
    if damage == "folder":
        entry.unlink()
        entry.mkdir()
    elif damage == "other":
        (tmp_path / "b").mkdir()
        load(source("lcb", tmp_path / "b", 3))
        (other,) = (path for path in cache.iterdir() if path != entry)
        entry.write_bytes(other.read_bytes())
    else:
        body = {"cut": data[:-9], "empty": b"", "flip": data.replace(b"p1", b"p9", 1)}
        entry.write_bytes(body.get(damage, data.replace(b"[[1,", b"[[99,", 1)))
    scans.clear()
    assert load(name).ids == ids
    assert len(scans) == 1
    assert load(name).ids == ids


def test_an_unwritable_cache_only_costs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scans: list[Path]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing")
    name = source("lcb", tmp_path)
    assert load(name).ids == load(name).ids
    assert len(scans) == 2


def _ids(name: str) -> tuple[str, ...]:
    return load(name).ids


def test_several_processes_at_once(tmp_path: Path, cache: Path) -> None:
    name = source("lcb", tmp_path, 40)
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        results = pool.map(_ids, [name] * 12)
    assert set(results) == {load(name).ids}
    assert [path.suffix for path in cache.iterdir()] == [".json"]


def test_listing_ten_thousand_problems_reads_no_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = source("lcb", tmp_path, 10_000)
    load(name)
    monkeypatch.setattr(records.JsonLines, "fetch", None)
    monkeypatch.setattr(records.JsonLines, "scan", None)
    problems = load(f"{name}?difficulty=hard&after=2024-01-01")
    assert len(problems) == 10_000
    assert problems.outline("p9999").tests == 3


def test_files_of_a_folder_are_one_source_and_splits_are_by_name(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for split, number in (("train", 0), ("train", 1), ("test", 0)):
        name = f"{split}-0000{number}-of-00002.parquet"
        write_parquet(tmp_path / name, [taco(name=f"{split} {number} {row}") for row in range(3)])
    assert len(load(f"taco:{tmp_path}")) == 9
    assert load(f"taco:{tmp_path}?split=test").ids == tuple(f"test-00000-of-00002-{n}" for n in (1, 2, 3))
    with pytest.raises(UserError, match="no file of this split or config"):
        load(f"taco:{tmp_path}?split=dev")


def test_an_id_that_occurs_twice_is_named_with_both_places(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [lcb("p"), lcb("q")])
    write_lines(tmp_path / "b.jsonl", [lcb("p")])
    with pytest.raises(
        UserError, match=r"b\.jsonl:1: field id: 'p' occurs more than once, first in .*a\.jsonl:1"
    ):
        load(f"lcb:{tmp_path}")
    problems = load(f"lcb:{tmp_path}", skip_bad=True)
    assert (problems.ids, problems.skipped) == (("p", "q"), {"id occurs more than once": 1})


def test_without_skip_bad_the_first_broken_record_ends_it(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "t.jsonl"
    good = json.dumps(lcb("a"))
    path.write_text(f"{good}\n{{}}\n\n{json.dumps(lcb('b'))}\nnull\n{good[:100]}")
    with pytest.raises(
        BrokenRecordError, match=r"t\.jsonl:2: field question_id is missing; there are no fields"
    ):
        load(f"lcb:{path}")
    problems = load(f"lcb:{path}", skip_bad=True)
    assert (problems.ids, problems.skipped) == (("a", "b"), {"broken": 3})
    with pytest.raises(BrokenRecordError, match=r":2: "):  # now from the index
        load(f"lcb:{path}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"question_id": "a', r":1: not JSON \(.*\); the file ends in it: was it cut off\?"),
        ("[1]\n", ":1: the line must be a JSON object, not list"),
        ("[" * 100_000 + "\n", ":1: not a problem: JSON nested too deeply"),
        ('{"a": ' + "1" * 5000 + "}\n", r":1: not JSON \(Exceeds the limit"),
        ("\n\n\xff\n", ":3: not JSON"),
    ],
)
def test_damaged_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=rf"t\.jsonl{message}") as caught:
        load(f"lcb:{path}")
    assert "\n" not in str(caught.value)


def test_a_line_of_unreasonable_length_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_LINE_BYTES", 5000)
    path = tmp_path / "t.jsonl"
    path.write_text(f"{json.dumps(lcb('a'))}\n{'x' * 20_000}\n{json.dumps(lcb('b'))}\n")
    with pytest.raises(UserError, match=r"t\.jsonl:2: the line is longer than"):
        load(f"lcb:{path}")
    assert load(f"lcb:{path}", skip_bad=True).ids == ("a", "b")


@pytest.mark.parametrize("name", ["bad.parquet", "bad.arrow"])
def test_what_is_no_parquet_or_arrow_file(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / name).write_text("nonsense" * 100)
    with pytest.raises(UserError, match=rf"{name}: not a[n]? \w+ file \(") as caught:
        load(f"taco:{tmp_path / name}")
    assert "\n" not in str(caught.value)


def test_parquet_of_another_schema(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = write_parquet(tmp_path / "x.parquet", [{"text": "a", "label": 1}])
    with pytest.raises(UserError, match=r"x\.parquet row 1: field id is missing; there are text, label"):
        load(f"codecontests+:{path}")
    assert load(f"codecontests+:{path}", skip_bad=True).skipped == {"broken": 1}


def test_a_damaged_row_group_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = write_parquet(
        tmp_path / "x.parquet", [taco(name=f"n{i}", question=f"{i} " * 500) for i in range(6)]
    )
    about = pq.ParquetFile(path).metadata.row_group(1).column(7)
    data = bytearray(path.read_bytes())
    start = about.dictionary_page_offset or about.data_page_offset
    data[start : start + about.total_compressed_size] = b"\xff" * about.total_compressed_size
    path.write_bytes(bytes(data))
    with pytest.raises(UserError, match=r"x\.parquet row 3: cannot be read"):
        load(f"taco:{path}")
    assert load(f"taco:{path}", skip_bad=True).ids == ("x-1", "x-2", "x-5", "x-6")


def test_without_pyarrow_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    (tmp_path / "x.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r'x\.parquet: reading this file needs pyarrow; pip install "cef-env'):
        load(f"taco:{tmp_path / 'x.parquet'}")


def test_a_hub_name_goes_through_the_datasets_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    import sys
    from types import ModuleType, SimpleNamespace

    path = write_arrow(tmp_path / "cached.arrow", [codecontests_plus("a"), codecontests_plus("b")])
    asked: list[Any] = []

    def load_dataset(name: str, config: str | None, split: str | None) -> Any:
        asked.append((name, config, split))
        return {"train": SimpleNamespace(cache_files=[{"filename": str(path)}])}

    library = ModuleType("datasets")
    library.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", library)
    assert load("codecontests+:Someone/Data?config=1x").ids == ("a", "b")
    assert asked == [("Someone/Data", "1x", None)]
    library.load_dataset = lambda *a, **k: 1 / 0  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="datasets cannot load it: division by zero"):
        load("codecontests+:Someone/Data")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match="to load it from the Hugging Face hub, pip install datasets"):
        load("codecontests+:Someone/Data")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lcb:", "give the file or folder, as in lcb:PATH"),
        ("lcb:?after=2024-01-01", "give the file or folder"),
        ("lcb:nowhere.jsonl", "nowhere.jsonl does not exist"),
        ("lcb:{tmp}", "no .jsonl, .parquet, .arrow file in"),
        ("lcb:{tmp}/x.csv", "must end in .jsonl, .parquet or .arrow"),
        ("lcb:{tmp}/x.jsonl?size=3", "unknown option 'size'; use after, before"),
        ("taco:{tmp}/x.jsonl?release=v1", "unknown option 'release'"),
        ("lcb:{tmp}/x.jsonl?after=yesterday", "after='yesterday' must be a day such as"),
        ("lcb:/dev/null", "neither a file nor a folder"),
        ("icpc:{tmp}", "no problem.yaml in"),
        ("icpc:{tmp}/x.csv", "is a file; give a folder with problem.yaml"),
        ("icpc:nowhere", "nowhere does not exist; give a folder"),
        ("lcb:a\0b", "give the file or folder"),
    ],
)
def test_mistakes_in_a_source(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.csv").touch()
    if "jsonl" in text:
        (tmp_path / "x.jsonl").touch()
    with pytest.raises(UserError, match=message) as caught:
        load(text.replace("{tmp}", str(tmp_path)))
    assert "\n" not in str(caught.value)


def test_a_path_may_hold_a_question_mark(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "what?.jsonl", [lcb("a")])
    assert load(f"lcb:{path}").ids == ("a",)
    assert load(f"lcb:{path}?after=2030-01-01").ids == ()


def test_what_a_selection_cannot_select_is_said(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", [taco(), taco(difficulty=None)])
    with pytest.raises(UserError, match="no problem has difficulty='hrad'; known: very_hard"):
        load(f"taco:{path}?difficulty=very_hard,hrad")
    problems = load(f"taco:{path}?after=2024-01-01")
    assert (problems.ids, problems.skipped) == ((), {"no date, but the source asks for a window": 2})


def test_an_id_of_unreasonable_length(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", [lcb("x" * 2000)])
    with pytest.raises(UserError, match=r"t\.jsonl:1: field id: has 2000 characters") as caught:
        load(f"lcb:{path}")
    assert len(str(caught.value)) < 400
