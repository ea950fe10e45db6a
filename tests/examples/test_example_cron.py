"""examples/cron_report, as its README says it."""

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from replica import Replica, lines, wait_until
from root import ROOT

FOLDER = ROOT / "examples/cron_report"


def times(folder: Path) -> list[datetime]:
    return [datetime.fromisoformat(line.split(",")[0]) for line in lines(folder, "disk-report.csv")]


@pytest.mark.full_but("alone")
@pytest.mark.parametrize("arguments", [(), ("--replicas", "2")], ids=["alone", "two replicas"])
def test_every_five_seconds_there_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    running = Replica(FOLDER, tmp_path / "replica.txt", *arguments)
    try:
        running.wait_ready()
        wait_until(lambda: len(times(tmp_path)) >= 2, about=running)
        assert sum(trigger["idle"] for trigger in running.triggers()) == len(arguments) // 2
        assert running.stop() == 0
    finally:
        running.kill()
    found = times(tmp_path)
    assert all(time.second % 5 == 0 for time in found)
    assert all(later - time >= timedelta(seconds=5) for time, later in pairwise(found))
