"""Any value in any field of any format is read, left out, or named in one line: nothing else comes out."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.problems import apps, codecontests, lcb
from cef_env.problems.fields import Record, Skip
from cef_env.problems.icpc import ICPC
from cef_env.problems.index import Format, Outline
from cef_env.problems.jsonl import JSONL
from tests.problems import formats

RECORDS: dict[str, tuple[Format, dict[str, Any]]] = {
    "lcb": (lcb.LCB, formats.lcb()),
    "lcb functional": (lcb.LCB, formats.lcb_functional()),
    "codecontests": (codecontests.CODECONTESTS, formats.codecontests()),
    "codecontests+": (codecontests.CODECONTESTS_PLUS, formats.codecontests_plus()),
    "apps": (apps.APPS, formats.apps()),
    "taco": (apps.TACO, formats.taco()),
    "jsonl": (
        JSONL,
        {"id": "p", "title": "t", "statement": "s", "tests": [{"input": "1", "output": "2"}]}
        | {"submissions": [{"kind": "a", "program": "b"}], "checker_program": None, "function": None},
    ),
}

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
names = st.sampled_from(
    ["input", "output", "inputs", "outputs", "fn_name", "language", "code", "seconds", "x"]
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be replaced in a record."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def parsed(form: Format, data: Any) -> None:
    message = ""
    try:
        problem = form.parse(Record(deepcopy(data), "file:1"), 1).problem
    except (Skip, UserError) as error:
        message = str(error)
        assert message
    else:
        assert Outline.of(problem).levels == problem.levels
    assert "\n" not in message
    assert len(message) < 1000


@pytest.mark.parametrize("kind", sorted(RECORDS))
@given(data=st.data())
@settings(max_examples=150)
def test_records(kind: str, data: st.DataObject) -> None:
    form, record = RECORDS[kind]
    place = data.draw(st.sampled_from(places(record)))
    new = data.draw(values | values.map(json.dumps))
    parsed(form, replaced(record, place, new))


@pytest.mark.parametrize(
    "name", ["problem.yaml", "submissions/submissions.yaml", "data/secret/test_group.yaml"]
)
@given(data=st.data())
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_packages(tmp_path: Path, name: str, data: st.DataObject) -> None:
    package = formats.modern_package(tmp_path / "p")
    content = yaml.safe_load((package / name).read_text())
    if name == "problem.yaml" and data.draw(st.booleans()):
        content = yaml.safe_load(formats.LEGACY_YAML)
    place = data.draw(st.sampled_from(places(content)))
    (package / name).write_text(
        yaml.safe_dump(replaced(content, place, data.draw(values)), allow_unicode=True)
    )
    parsed(ICPC, {"package": str(package)})


tests = st.lists(
    st.fixed_dictionaries({"input": st.text(max_size=200), "output": st.text(max_size=20)}),
    min_size=1,
    max_size=6,
)


@given(tests)
def test_hidden_tests_of_livecodebench_are_read_as_they_were_packed(hidden: list[dict[str, str]]) -> None:
    record = formats.lcb(public_test_cases="[]", private_test_cases=formats.packed(hidden))
    problem = lcb.parse(Record(record, "file:1"), 1).problem
    expected = sorted(hidden, key=lambda test: len(test["input"]))
    assert [(test.input, test.output) for test in problem.tests] == [
        (t["input"], t["output"]) for t in expected
    ]
