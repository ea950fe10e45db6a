"""LogWatcher behind names: whose topic is another one by now, whatever is known of the name itself."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from committing import KEY, trigger_metrics

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.partition import of_records
from headrace.triggers.kafka.client.topics import TopicDescription
from headrace.triggers.kafka.group.offsets import GroupOffsets, GroupTopics
from headrace.triggers.kafka.log_watcher import LogWatcher

OTHER = PartitionKey("t", 1)


class Assignment:
    """What is assigned, and what was begun anew, with the ids that commits would have carried then."""

    def __init__(self, offsets: GroupOffsets) -> None:
        self.partitions = {KEY: object(), OTHER: object()}
        self.restarts: list[tuple[dict[PartitionKey, Checkpoint], dict[PartitionKey, str]]] = []
        self._offsets = offsets

    async def start_anew(self, keys: Collection[PartitionKey], wait_seconds: float) -> None:
        assert not keys, "this group goes by names"

    async def restart(self, starts: dict[PartitionKey, Checkpoint], wait_seconds: float) -> None:
        self.restarts.append((starts, dict(self._offsets.begun)))


@pytest.mark.parametrize("known", ["old", "new"])
async def test_what_began_by_another_topic_begins_anew_whatever_the_name_stands_for_by_now(
    known: str,
) -> None:
    none: Any = None
    offsets = GroupOffsets(none, none, "g")
    # Where starts are read a second time, of partitions that had no leader, the new id is known already.
    offsets.topics = GroupTopics(ids={"t": known}, first_partition_counts={"t": 2})
    offsets.begun = {KEY: "old", OTHER: "new"}
    if known == "old":
        offsets.begun[OTHER] = "old"
    assignment: Any = Assignment(offsets)
    settings: Any = SimpleNamespace(
        topics=["t"],
        on_failure=SimpleNamespace(then="halt", dead_letter_topic=""),
        max_wait_handler_during_rebalance_seconds=5,
    )
    logs = LogWatcher((none, none), settings, assignment, offsets, trigger_metrics())
    await logs._follow_topic("t", TopicDescription("new", 2, frozenset()))
    await logs._follow_topic("t", TopicDescription(known if known == "old" else "new", 2, frozenset()))
    assert len(assignment.restarts) == (known == "new"), "the first broker may have lagged behind"
    if known == "old":
        for _ in range(2):
            await logs._follow_topic("t", TopicDescription("new", 2, frozenset()))
    outdated = {KEY, OTHER} if known == "old" else {KEY}
    assert assignment.restarts == [(dict.fromkeys(outdated, Checkpoint(0)), {KEY: "new", OTHER: "new"})]
    assert offsets.topics.gone == ({"old"} if known == "old" else set())
    for topic_id in ("new", *offsets.topics.gone):  # a broker may lag behind
        await logs._follow_topic("t", TopicDescription(topic_id, 2, frozenset()))
    assert len(assignment.restarts) == 1


async def test_what_is_said_twice_to_be_out_of_range_goes_on_once() -> None:
    """A request was on its way when the first one was answered."""
    none: Any = None
    partition = of_records(KEY, Checkpoint(0), 256)
    gone_on: list[int] = []
    assignment: Any = SimpleNamespace(
        partitions={KEY: partition}, go_on_from=lambda _, offset: gone_on.append(offset)
    )
    settings: Any = SimpleNamespace(
        on_failure=SimpleNamespace(then="halt", dead_letter_topic=""),
        max_wait_handler_during_rebalance_seconds=5,
    )

    class Consumer:
        async def beginning_offsets(self, asked: Collection[TopicPartition]) -> dict[TopicPartition, int]:
            for position in said.pop(0):
                logs.on_out_of_range({TopicPartition(*KEY): position})
            return dict.fromkeys(asked, 50)

    consumer: Any = Consumer()
    metrics = trigger_metrics()
    logs = LogWatcher((consumer, none), settings, assignment, GroupOffsets(none, none, "g"), metrics)
    said = [[7], []]
    logs.on_out_of_range({TopicPartition(*KEY): 7})
    await logs._resume_lost()
    await logs._resume_lost()
    assert gone_on == [50]
    assert said == [[]], "the second time nothing was left to ask for"
    said = [[20], []]
    logs.on_out_of_range({TopicPartition(*KEY): 7})
    await logs._resume_lost()
    await logs._resume_lost()
    assert gone_on == [50, 50, 50], "it is elsewhere by now"
