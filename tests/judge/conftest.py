"""A judge that many tests share."""

from collections.abc import Iterator

import pytest

from cef_env.judge import Judge


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with Judge(workers=2) as judge:
        yield judge
