"""A member of a group that is none of ours: librdkafka's client, by the protocol `consumer`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker import Broker
from confluent_kafka import Consumer, KafkaException, Message

_STALE_MEMBER_EPOCH = 113


class LibrdkafkaMember:
    """Writes each record as handlers here do, and commits it before it takes the next one."""

    def __init__(self, broker: Broker, group: str, topic: str, log: Path, name: str) -> None:
        self._options = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self._topic, self._log, self._name = topic, log, name
        self._over = threading.Event()
        self.count = 0
        """Of partitions, by the last look."""

    def run(self) -> None:
        """Until it is over; then it leaves in peace."""
        consumer = Consumer(self._options)
        consumer.subscribe([self._topic])
        try:
            while not self._over.is_set():
                self.count = len(consumer.assignment())
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    with self._log.open("a") as log:
                        line = f"{message.topic()} {message.partition()} {message.offset()} {self._name}\n"
                        log.write(line)
                    _commit(consumer, message)
        finally:
            consumer.close()

    def stop(self) -> None:
        """At the next turn."""
        self._over.set()


def _commit(consumer: Consumer, message: Message) -> None:
    """Again where the epoch goes on at that moment: librdkafka leaves this to its caller."""
    while True:
        try:
            consumer.commit(message=message, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != _STALE_MEMBER_EPOCH:
                raise
        else:
            return


@contextmanager
def librdkafka_member(
    broker: Broker, group: str, topic: str, log: Path, name: str
) -> Iterator[LibrdkafkaMember]:
    """A running one. It has left at the end."""
    member = LibrdkafkaMember(broker, group, topic, log, name)
    thread = threading.Thread(target=member.run)
    thread.start()
    try:
        yield member
    finally:
        member.stop()
        thread.join()
