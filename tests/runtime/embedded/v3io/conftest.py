"""Clients of the v3io server of the run."""

import uuid
from collections.abc import AsyncIterator

import pytest
from servers import SharedV3io
from v3io_calls import Calls, calls


@pytest.fixture
async def client(v3io: SharedV3io) -> AsyncIterator[Calls]:
    async with calls(v3io.url) as client:
        yield client


@pytest.fixture
def folder() -> str:
    """Of the test's own, in the container bigdata."""
    return f"t{uuid.uuid4().hex[:12]}"
