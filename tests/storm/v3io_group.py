"""`make storm`: the group of a v3io stream, whose members and server come and go.

members  who has which shards, and how soon, by the default timeouts: joins, deaths, stops, an outage
kills    16 shards, 4 replicas, 500 records a second: replicas, workers and the server are killed
away     a replica is frozen, or cut off one way or both ways, for longer than its session, and goes on

usage: v3io_group.py [members|kills|away] [--count N] [--seed N] [--seconds LOAD]
"""

import asyncio
import sys
from pathlib import Path

from scenario import Alone, Report, main_without_broker
from v3io_away import away
from v3io_kills import kills
from v3io_members import PIECES


def members(folder: Path, number: int, report: Report) -> None:
    """One piece after the other, each on a server of its own."""
    for piece in PIECES:
        own = folder / piece.__name__
        own.mkdir()
        piece(own, number, report)


SCENARIOS: dict[str, Alone] = {"members": members, "kills": kills, "away": away}

if __name__ == "__main__":
    sys.exit(asyncio.run(main_without_broker(SCENARIOS, __doc__ or "")))
