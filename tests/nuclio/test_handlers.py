"""Handlers as people write them for Nuclio, each in a file that says what it logs: all in one run."""

import asyncio
from functools import partial
from pathlib import Path

from aiokafka import AIOKafkaProducer
from broker import Broker
from kafka_records import group_offsets
from replica import replica, wait_until

FOLDER = Path(__file__).parent / "handlers"
FILES = [path for path in sorted(FOLDER.glob("*.py")) if "@nuclio.configure" in path.read_text()]
SAYS = "# says: "
RECORDS = 3
FAILING = {"retried", "poison"}


def says(path: Path) -> list[str]:
    return [line.removeprefix(SAYS) for line in path.read_text().splitlines() if line.startswith(SAYS)]


def name_of(path: Path) -> str:
    return path.stem.replace("_", "-")


def is_done(broker: Broker, name: str) -> bool:
    return group_offsets(broker, name) == {(name, 0): RECORDS}


async def send_to_all(brokers: str) -> None:
    """The same three records to the topic of each."""
    async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
        for path in FILES:
            for n in range(RECORDS):
                body, headers = b'{"n": %d}' % n, [("source", b"test")]
                await producer.send_and_wait(name_of(path), body, key=b"k%d" % n, headers=headers)


def test_all_of_them_handle_and_commit_their_records(broker: Broker, tmp_path: Path) -> None:
    assert len(FILES) >= 30
    for path in FILES:
        broker.create(name_of(path), 1)
    asyncio.run(send_to_all(broker.bootstrap))
    first, *others = map(str, FILES)
    with replica(Path(first), *others, "--brokers", broker.bootstrap, log=tmp_path / "log") as running:
        running.wait_ready()
        for path in FILES:
            name = name_of(path)
            wait_until(partial(is_done, broker, name), 120, about=running)
            for line in says(path):
                assert any(
                    f"handler: {line}" in told and f"function={name}  trigger=records" in told
                    for told in running.log.splitlines()
                ), (name, line, running.log)
        assert running.stop() == 0
        troubles = [line for line in running.log.splitlines() if " ERROR " in line]
        assert all(line.partition("ERROR")[2].split("/")[0].strip() in FAILING for line in troubles), troubles
