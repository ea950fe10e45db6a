"""Raw bytes at each of Headrace's servers: nothing is done, little is kept, and each has its answer soon."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attacking import Attacked, attacked, floods, outcome
from raw_attacks import HELD, KINDS, Attack, attacks

pytestmark = pytest.mark.processes
MOST_MIB = 64
MOST_AT_ONCE = 40  # the admin server keeps 64 connections
MOST_SECONDS = 10


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Attacked]]:
    """One of each kind, started together."""
    with ExitStack() as stack:
        begun = []
        for kind in KINDS:
            (folder := tmp_path / kind).mkdir()
            begun.append(stack.enter_context(attacked(kind, folder)))
        for server in begun:
            server.wait()
        yield begun


async def test_an_attack_is_refused_soon_and_costs_little_and_does_nothing(servers: list[Attacked]) -> None:
    for server in servers:
        assert await server.is_well()
        server.begin()
    found = await asyncio.gather(*map(_attacks, servers))
    assert not (wrong := [line for lines in found for line in lines]), "\n".join(wrong)
    for server in servers:
        assert await server.is_well()
        assert server.grown_mib < MOST_MIB, server.kind
        assert [done for done in server.done() if done != "/ok"] == []


async def test_a_flood_costs_little_and_keeps_nobody_out(servers: list[Attacked]) -> None:
    for server in servers:
        assert await server.is_well()
        for flood in floods(server.kind):
            server.begin()
            async with flood.on(server) as outcomes:
                grown_mib = server.grown_mib
                sys.stdout.write(f"{server.kind}: {flood.name}: {grown_mib:.0f} MiB, {outcomes}\n")
                assert grown_mib < MOST_MIB, flood.name
                assert await server.is_well(), flood.name
        assert [done for done in server.done() if done != "/ok"] == []


async def _attacks(server: Attacked) -> list[str]:
    """What is wrong with the answers."""
    planned, at_once = list(attacks(server.kind)), asyncio.Semaphore(MOST_AT_ONCE)

    async def judged(attack: Attack) -> tuple[str, float]:
        async with at_once:
            return await outcome(server, attack)

    found = await asyncio.gather(*map(judged, planned))
    answered = [
        (it[1], attack.name) for it, attack in zip(found, planned, strict=True) if attack.wanted != HELD
    ]
    seconds, slowest = max(answered)
    sys.stdout.write(
        f"{server.kind}: {len(planned)} attacks, {slowest} was answered last, after {seconds:.2f} s\n"
    )
    late = [f"{slowest}: after {seconds:.0f} s"] if seconds > MOST_SECONDS else []
    return [f"{server.kind}: {said}" for said in [*(wrong for wrong, _ in found if wrong), *late]]
