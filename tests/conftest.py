"""Fixtures that every test may ask for."""

from collections.abc import Iterator

import pytest
from broker import Broker, any_broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for the whole run."""
    with any_broker() as found:
        yield found


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of this test's own, with 8 partitions."""
    return broker.create_topic(8)
