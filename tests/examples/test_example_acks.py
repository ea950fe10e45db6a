"""examples/explicit_ack and examples/late_acks, as their READMEs say it."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from replica import Replica, wait_until
from root import ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Replica]]:
    """Both, started at the same time."""
    folder = tmp_path_factory.mktemp("examples")
    running = {
        name: Replica(EXAMPLES / name, folder / name, "--embedded-kafka")
        for name in ("explicit_ack", "late_acks")
    }
    try:
        yield running
    finally:
        for each in running.values():
            each.kill()


def produce(running: Replica, topic: str, count: int) -> None:
    """The README's `seq`."""
    address = running.log.split("embedded Kafka at ")[1].split()[0]
    command = [sys.executable, "-P", "-m", "headrace", "kafka", "produce", "--brokers", address]
    numbers = "".join(f"{number}\n" for number in range(1, count + 1)).encode()
    subprocess.run([*command, "--topic", topic], input=numbers, check=True, capture_output=True)


def open_records(running: Replica) -> tuple[int, int]:
    """How many are fetched and not acked, and how many of these have been handled."""
    rows = running.trigger()["partitions"]
    return sum(row["unsettled"] for row in rows), sum(row["unacked"] for row in rows)


@pytest.mark.full
def test_numbers_stay_open_until_the_third_of_their_sum(examples: dict[str, Replica]) -> None:
    running = examples["explicit_ack"].wait_ready()
    produce(running, "numbers", 7)
    wait_until(lambda: running.log.count("three numbers, ") == 2, about=running)
    wait_until(lambda: open_records(running) == (1, 1), about=running)
    assert running.stop() == 0
    sums = [int(found) for found in re.findall(r"three numbers, (\d+) in all", running.log)]
    assert 21 <= sum(sums) <= 27  # 28 without the one that waits
    assert "1 numbers wait for a third; they come again, here or elsewhere" in running.log


@pytest.mark.full
def test_records_are_acked_by_their_tasks_in_the_order_in_which_these_finish(
    examples: dict[str, Replica],
) -> None:
    running = examples["late_acks"].wait_ready()
    produce(running, "names", 200)
    wait_until(lambda: running.log.count("found ") == 200, about=running)
    found = re.findall(r"found (\d+)", running.log)
    assert sorted(found, key=int) == [str(number) for number in range(1, 201)]
    assert found != sorted(found, key=int)
    wait_until(lambda: open_records(running) == (0, 0), about=running)
    wait_until(lambda: sum(running.committed().values()) == 200, about=running)
    assert running.stop() == 0
