"""A message that its topic refuses: only its own record fails, by onFailure. Real broker."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from kafka_records import produce
from replica import replica, set_trigger, wait_until, write_function
from transactional import read_committed

ONE_IS_TOO_LARGE = """
    def handler(context, event):
        is_large = event.offset == 5
        context.produce(OUT, f"{event.offset} " + "x" * (1_300_000 if is_large else 10))
"""
BATCH_WITH_ONE_TOO_LARGE = """
    def handler(context, events):
        for event in events:
            is_large = event.offset == 5
            context.produce(OUT, f"{event.offset} " + "x" * (1_300_000 if is_large else 10))
"""


def refusing(tmp_path: Path, broker: Broker, topic: str, handler: str, **attributes: Any) -> tuple[Path, str]:
    """A function whose one refused record becomes a dead letter, and the topic that it produces to."""
    out, letters = broker.create_topic(1), f"{topic}.dlq"
    broker.create(letters, 1)
    on_failure = {"maxAttempts": 2, "then": "deadLetter", "deadLetterTopic": letters, "backoff": "10ms"}
    folder = write_function(
        tmp_path / "f",
        handler.replace("OUT", repr(out)),
        broker.bootstrap,
        [topic],
        partitions=[0],
        onFailure=on_failure,
        **attributes,
    )
    return folder, out


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("exactly_once", [False, True])
def test_one_message_over_the_limit_fails_its_record_and_all_others_are_written(
    broker: Broker, topic: str, tmp_path: Path, *, exactly_once: bool, is_batch: bool
) -> None:
    handler = BATCH_WITH_ONE_TOO_LARGE if is_batch else ONE_IS_TOO_LARGE
    folder, out = refusing(tmp_path, broker, topic, handler, exactlyOnce=exactly_once)
    if is_batch:
        set_trigger(folder, batch={"mode": "enable", "batchSize": 16, "timeout": "100ms"})
    produce(broker, topic, 40, partitions=1)
    with replica(folder) as running:
        wait_until(lambda: running.committed().get(0) == 40, 90, about=running)
        assert running.stop() == 0
        assert "OutOfOrderSequenceNumber" not in running.log
    letters = read_committed(broker, f"{topic}.dlq")
    assert len(letters) == 1
    written = Counter(value.split()[0] for value in read_committed(broker, out) if value is not None)
    assert set(written) == {str(n).encode() for n in range(40) if n != 5}
    if exactly_once:
        assert set(written.values()) == {1}
