"""examples/v3io_stream, as its README says: on the server that Headrace brings."""

import re
import subprocess
from pathlib import Path

from command import run
from forked import PROGRAM
from replica import Replica, wait_until
from root import ROOT


def test_two_replicas_count_readings_and_nothing_is_left_over(tmp_path: Path) -> None:
    arguments = ("--embedded-v3io", "--replicas", "2")
    running = Replica(ROOT / "examples/v3io_stream", tmp_path / "replica.txt", *arguments)
    try:
        running.wait_ready()
        found = re.search(r"embedded v3io at (\S+)", running.log)
        assert found is not None
        for number in range(3):
            put(found[1], f"kitchen\t{20 + number}.5\ncellar\t12.0\n")
        wait_until(lambda: "kitchen: 22.5 degrees" in running.log, about=running)
        wait_until(lambda: "2 members; lag 0 in all" in lag(found[1]), about=running)
        assert running.stop() == 0
    finally:
        running.kill()


def put(url: str, lines: str) -> None:
    command = [*PROGRAM, "v3io", "put", "bigdata/readings", "--keyed", "--v3io", url]
    subprocess.run(command, input=lines, text=True, check=True, timeout=120)


def lag(url: str) -> str:
    return run("v3io", "lag", "bigdata/readings", "sensors", "--v3io", url).stdout
