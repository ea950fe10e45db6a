"""A message that its topic refuses: only its own record fails, by onFailure. Real broker."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from kafka_records import produce
from replica import lines, replica, set_trigger, wait_until, write_function
from transactional import read_committed

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.topics import create_topics

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


def refusing(
    tmp_path: Path, broker: Broker, topic: str, handler: str, *, out: str = "", **attributes: Any
) -> tuple[Path, str]:
    """A function whose one refused record becomes a dead letter, and the topic that it produces to."""
    out, letters = out or broker.create_topic(1), f"{topic}.dlq"
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


@pytest.mark.full_but("False-False", "True-True")
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


@pytest.mark.full_but("key=None*False")
@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize(
    ("fault", "why"),
    [("key=None", "a compacted one takes none without a key"), ("timestamp=9 * 10**12", "of that time")],
)
def test_of_messages_in_one_batch_only_a_malformed_one_has_failed(
    broker: Broker, topic: str, tmp_path: Path, fault: str, why: str, *, exactly_once: bool
) -> None:
    handler = f"""
        def handler(context, event):
            write(f"{{event.offset}} {{event.attempt}}")
            fault = dict({fault}) if event.offset == 2 else {{}}
            context.produce(OUT, str(event.offset), partition=0, **dict(dict(key="key"), **fault))
    """
    out = f"{topic}-compacted"
    asyncio.run(create_topics(BrokerAccess(broker.bootstrap), {out: 1}, {"cleanup.policy": "compact"}))
    folder, _ = refusing(tmp_path, broker, topic, handler, out=out, exactlyOnce=exactly_once)
    produce(broker, topic, 8, partitions=1)
    with replica(folder) as running:
        wait_until(lambda: running.committed().get(0) == 8, 90, about=running)
        assert running.stop() == 0
        assert why in running.log
    assert len(read_committed(broker, f"{topic}.dlq")) == 1
    assert {line for line in lines(folder) if line.endswith(" 2")} == {"2 2"}
    assert set(read_committed(broker, out)) == {b"%d" % n for n in range(8) if n != 2}


@pytest.mark.full_but("False")
@pytest.mark.parametrize("exactly_once", [False, True])
def test_small_messages_cost_no_attempts_where_only_their_batch_is_too_large(
    broker: Broker, topic: str, tmp_path: Path, *, exactly_once: bool
) -> None:
    handler = """
        def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            for n in range(20):
                context.produce(OUT, f"{event.offset} {n} " + "x" * (5000 if event.offset == 2 else 100))
    """
    small = f"{topic}-small"
    asyncio.run(create_topics(BrokerAccess(broker.bootstrap), {small: 1}, {"max.message.bytes": "4000"}))
    folder, _ = refusing(tmp_path, broker, topic, handler, out=small, exactlyOnce=exactly_once)
    produce(broker, topic, 6, partitions=1)
    with replica(folder) as running:
        wait_until(lambda: running.committed().get(0) == 6, 90, about=running)
        assert running.stop() == 0
    assert len(read_committed(broker, f"{topic}.dlq")) == 1
    # Those that were in flight behind the one that is too large are handled again, at their first attempt.
    tried = set(lines(folder))
    assert tried == {*(f"{n} 1" for n in range(6)), "2 2"}
    found = [value.rsplit(b" ", 1)[0] for value in read_committed(broker, small) if value is not None]
    expected = [f"{offset} {n}".encode() for offset in (0, 1, 3, 4, 5) for n in range(20)]
    assert found == expected if exactly_once else list(dict.fromkeys(found)) == expected
