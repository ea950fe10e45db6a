"""Acks of a topic's records that come once another topic has its name. On a real broker."""

import re
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from kafka_records import produce
from replica import lines, replica, set_trigger, wait_until, write_function

# What it holds of the topic before is acked as the first record of the new one runs.
ACKS_LATE = """
import nuclio_sdk
held = []
def name(event):
    return {named}
async def handler(context, event):
    write(f"{{event.offset}} {{event.body.decode()}}")
    if len(event.body) == 8:
        held.append(name(event))
        return
    while held:
        write(f"{{await context.platform.{verb}(held.pop())}}", "old")
    write(f"{{await context.platform.explicit_ack(name(event))}}", "new")
"""
OF_THE_EVENT = "nuclio_sdk.QualifiedOffset.from_event(event)"
BY_NUMBERS = "nuclio_sdk.QualifiedOffset(str(event.topic), event.shard_id, event.offset)"
CLASSIC, CONSUMER = {"sessionTimeout": "30s"}, {"groupProtocol": "consumer"}


@pytest.mark.full_but("classic")
@pytest.mark.parametrize(
    ("attributes", "named", "verb"),
    [
        (CONSUMER, OF_THE_EVENT, "explicit_ack"),
        (CONSUMER, BY_NUMBERS, "explicit_ack"),
        (CONSUMER, "event", "explicit_ack_through"),
        (CLASSIC, OF_THE_EVENT, "explicit_ack"),
        (CONSUMER, OF_THE_EVENT, "explicit_nack"),
    ],
    ids=["consumer", "by-numbers", "through", "classic", "nack"],
)
def test_late_acks_of_a_topic_that_was_made_anew_settle_nothing_of_the_one_that_has_its_name(
    attributes: dict[str, Any], named: str, verb: str, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.create_topic(1)
    attributes = attributes | {"topicPattern": re.escape(topic), "topicRefresh": "1s"}
    folder = write_function(
        tmp_path / "f",
        ACKS_LATE.format(named=named, verb=verb),
        broker.bootstrap,
        [topic],
        1,
        workerAllocationMode="static",
        consumerGroup=f"group-{topic}",
        **attributes,
    )
    without_topics(set_trigger(folder, explicitAckMode="explicitOnly"))
    produce(broker, topic, 100, 1)
    with replica(folder) as running:
        wait_until(lambda: len(lines(folder)) == 100, 90, about=running)
        broker.delete(topic)
        broker.create(topic, 1)
        produce(broker, topic, 200, 1, size=64)
        wait_until(lambda: running.committed() == {0: 200}, 60, about=running)
        assert running.stop() == 0
    new = {int(offset) for offset, body in map(str.split, lines(folder)) if len(body) == 64}
    lost = set(range(200)) - new
    assert not lost, f"{len(lost)} of 200 were never handled"
    # With classic the end of the new one may come first, in the place of what would follow in the old one.
    told = lines(folder, "old")
    assert told
    if "groupProtocol" in attributes:
        # The numbers of the record that runs now are taken as its own: it acks itself.
        assert told.count("False") == len(told) - (named == BY_NUMBERS)
        assert running.log.count("made anew or cut since") == 1


def without_topics(folder: Path) -> None:
    """By its pattern alone."""
    path = folder / "function.yaml"
    path.write_text(re.sub(r" +topics:\n( +- .*\n)+", "", path.read_text()))
