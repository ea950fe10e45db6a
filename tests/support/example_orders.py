"""An example on orders, run as its README says it, with a worker killed on the way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset
from replica import Replica, wait_until

COUNT = 800


@contextmanager
def orders_through_a_kill(example: Path, table: Path) -> Iterator[Replica]:
    """The running example, which has been sent COUNT orders and a line that is none."""
    running = Replica(example, table.parent / "replica.txt", "--embedded-kafka")
    try:
        wait_until(lambda: "embedded Kafka at" in running.log, about=running)
        address = running.log.split("embedded Kafka at ")[1].split()[0]
        running.wait_ready()
        produce(address, *orders(range(COUNT // 2)), "tea, please")
        wait_until(lambda: list(table.glob("topic=orders/*/*.parquet")), about=running)
        os.kill(running.worker_pids()[0], signal.SIGKILL)
        produce(address, *orders(range(COUNT // 2, COUNT)))
        yield running
        assert running.stop() == 0
    finally:
        running.kill()


def orders(numbers: range) -> list[str]:
    return [json.dumps({"id": f"{n:04}", "item": "tea", "quantity": n, "price": 2.5}) for n in numbers]


def produce(address: str, *lines: str) -> None:
    command = [sys.executable, "-P", "-m", "headrace", "kafka", "produce", "--brokers", address]
    body = "".join(f"{line}\n" for line in lines).encode()
    subprocess.run([*command, "--topic", "orders"], input=body, check=True, capture_output=True)


def rows(folder: Path) -> list[dict[str, Any]]:
    """A reader that comes across a file that is being replaced has to look again."""
    try:
        found = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    except FileNotFoundError:
        return []
    return list(found.to_pylist())
