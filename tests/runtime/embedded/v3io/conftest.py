"""One v3io server for the tests that leave it as it is."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
from v3io_calls import Calls, calls

from headrace.runtime.embedded.v3io.server import EmbeddedV3io


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedV3io]:
    running = EmbeddedV3io()
    asyncio.run(running.start())
    try:
        yield running
        assert running._folder.path is not None
        assert (running._folder.path / "v3io.log").read_text() == ""
    finally:
        asyncio.run(running.stop())


@pytest.fixture
async def client(server: EmbeddedV3io) -> AsyncIterator[Calls]:
    async with calls(server.url) as client:
        yield client


@pytest.fixture
def folder() -> str:
    """Of the test's own, in the container bigdata."""
    return f"t{uuid.uuid4().hex[:12]}"
