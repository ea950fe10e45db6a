"""`python -m headrace.functions.long_tasks.client`: send requests and wait for their responses."""

import asyncio
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import click
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.functions.long_tasks.communication_pb2 import Request, Response
from headrace.functions.long_tasks.settings import KafkaSettings, SettingsError, read_settings

_MOST_NAMED = 10


@dataclass(slots=True)
class Answers:
    """Requests that were sent, and their responses so far. A second response changes nothing."""

    sequence_by_key: dict[bytes, int]
    """Sequence numbers of the requests, by message key."""
    processed: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    repeated: int = 0

    def record(self, key: bytes | None, response: Response) -> bool:
        """Record a response; return whether it is the first one to one of these requests.

        The message's key says which request it answers: a response to a request that can't be parsed has
        sequence 0.
        """
        sequence = self.sequence_by_key.get(key or b"")
        if sequence is None:
            return False
        if sequence in self.processed | self.refused:
            self.repeated += 1
            return False
        (self.processed if response.isprocessed else self.refused).add(sequence)
        return True

    @property
    def missing(self) -> list[int]:
        """Sequence numbers of the requests without a response, in order."""
        return sorted({*self.sequence_by_key.values()} - self.processed - self.refused)


async def send_requests(
    settings: KafkaSettings,
    payloads: Sequence[str],
    timeout_seconds: float,
    on_answer: Callable[[], object] = lambda: None,
) -> Answers:
    """Send one request for each payload and wait for the responses.

    Stops waiting once no message has come for `timeout_seconds`; the result says what is missing then.
    Raises aiokafka's KafkaError.
    """
    # Keys of this call alone: the ack topic also has the responses to other clients and to earlier calls.
    run = uuid.uuid4().hex[:8]
    answers = Answers({f"{run}-{number}".encode(): number for number in range(len(payloads))})
    server = settings.kafka_bootstrap_server
    async with AIOKafkaConsumer(settings.kafka_ack_topic, bootstrap_servers=server) as consumer:
        # Without a group the consumer starts at the end; asking for the position fixes that end, so that no
        # response is missed that comes before the first fetch.
        for partition in consumer.assignment():
            await consumer.position(partition)  # the end, before the first request is sent
        async with AIOKafkaProducer(bootstrap_servers=server, acks="all", linger_ms=5) as producer:
            for (key, number), payload in zip(answers.sequence_by_key.items(), payloads, strict=True):
                value = Request(sequence=number, payload=payload).SerializeToString()
                await producer.send(settings.kafka_request_topic, value, key)
            await producer.flush()
        while answers.missing:
            try:
                record = await asyncio.wait_for(consumer.getone(), timeout_seconds)
            except TimeoutError:
                break
            if answers.record(record.key, Response.FromString(record.value)):
                on_answer()
    return answers


@click.command()
@click.option("--count", default=100, show_default=True, help="How many requests.")
@click.option("--payload", default="200000", show_default=True, help="Of each.")
@click.option(
    "--patience", default=60.0, show_default=True, help="Seconds without an answer, to the last one."
)
@click.option("--prefix", default="", help="Before the names of the four variables, such as ENGINE_.")
def main(count: int, payload: str, patience: float, prefix: str) -> None:
    """Send requests, show the responses as they come, print what is missing. Exit code 1 if something is."""
    try:
        settings = read_settings(os.environ, prefix)
        columns = (TextColumn("answers"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("answers", total=count)
            answers = asyncio.run(
                send_requests(settings, [payload] * count, patience, lambda: bar.advance(task))
            )
    except (SettingsError, KafkaError) as error:
        print(error, file=sys.stderr)  # noqa: T201  # for the terminal
        # 1 says that responses are missing; here no request may have been sent at all.
        sys.exit(2)
    sys.exit(_report(answers))


def _report(answers: Answers) -> int:
    missing, refused = answers.missing, sorted(answers.refused)
    print(f"{len(answers.processed)} processed, {len(refused)} not processed, {len(missing)} missing")  # noqa: T201
    for what, numbers in (("not processed", refused), ("missing", missing)):
        if numbers:
            more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
            print(f"{what}: {', '.join(map(str, numbers[:_MOST_NAMED]))}{more}")  # noqa: T201
    return 1 if missing else 0


if __name__ == "__main__":
    main()
