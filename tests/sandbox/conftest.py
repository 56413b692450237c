"""Terminals on every tier that has them."""

from collections.abc import Iterator

import pytest

from cef_env.sandbox.terminal import Terminal
from tests.judge.helpers import tier_or_skip
from tests.sandbox.terminals import FILES, LIMITS, SHORT, TIERS


@pytest.fixture(scope="module", params=TIERS)
def shared(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """For commands that leave nothing behind."""
    with Terminal(tier_or_skip(request.param), FILES, LIMITS) as terminal:
        yield terminal


@pytest.fixture(params=TIERS)
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    with Terminal(tier_or_skip(request.param), FILES, LIMITS) as terminal:
        yield terminal


@pytest.fixture(params=TIERS)
def hasty(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """One that stops commands soon."""
    with Terminal(tier_or_skip(request.param), FILES, SHORT) as terminal:
        yield terminal
