"""A dead-letter topic that isn't there yet, or no more, in a running system on a real broker."""

from pathlib import Path

import pytest
from broker import Broker
from kafka_records import group_offsets, handled, produce
from replica import lines, replica, wait_until, write_function

FAILS_AT_3 = """
    def handler(context, event):
        write(f"{event.topic} {event.shard_id} {event.offset}")
        if event.offset in (3, 13):
            raise ValueError("it broke")
"""


@pytest.mark.full
def test_a_dead_letter_topic_that_is_missing_is_said_at_the_start_and_whenever_it_goes(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.create_topic(1)
    letters = f"{topic}.dlq"
    on_failure = {"maxAttempts": 1, "then": "deadLetter", "deadLetterTopic": letters, "backoff": "100ms"}
    folder = write_function(tmp_path / "f", FAILS_AT_3, broker.bootstrap, [topic], onFailure=on_failure)
    with replica(folder) as running:
        running.logged(f"no such dead-letter topic: {letters} (", seconds=90)
        running.wait_ready()
        broker.create(letters, 1)
        produce(broker, topic, 10, partitions=1)
        wait_until(lambda: running.committed()[0] == 10, 90, about=running)
        running.logged(f"dead-letter topic {letters} is there now", seconds=90)
        broker.delete(letters)
        wait_until(lambda: len(running.log_times("no such dead-letter topic")) == 2, 90, about=running)
        produce(broker, topic, 10, partitions=1)
        wait_until(lambda: len(lines(folder)) == 14, 90, about=running)
        running.logged(f"{topic}/0 offset 13 can't be written to dead-letter topic {letters}", seconds=90)
        broker.create(letters, 1)
        wait_until(lambda: running.committed()[0] == 20, 90, about=running)
        assert running.stop() == 0
    assert handled(folder)[topic, 0] == list(range(20))
    assert group_offsets(broker, f"group-{topic}") == {(topic, 0): 20}
