"""One browser for all tests of pages."""

from collections.abc import Iterator

import pytest

from tests.eval.browser.chrome import Chrome


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with Chrome(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
