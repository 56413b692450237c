"""One report for all tests that look at its page: writing it is the slow part."""

from pathlib import Path

import pytest

from cef_env.eval import Sample, write_report
from tests.eval import pages


@pytest.fixture(scope="session")
def report_samples() -> list[Sample]:
    return pages.samples()


@pytest.fixture(scope="session")
def report_page(report_samples: list[Sample], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`report.html`, with everything else that was written beside it."""
    return write_report(tmp_path_factory.mktemp("report"), report_samples, **pages.material(report_samples))
