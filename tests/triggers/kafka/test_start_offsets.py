"""Where partitions start, and what a commit says besides its offset."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText
from headrace.triggers.kafka import start_offsets as kafka_start
from headrace.triggers.kafka.client.commits import Commit, fetch_commits
from headrace.triggers.kafka.client.topics import TopicDescription
from headrace.triggers.kafka.group import offsets as group_offsets
from headrace.triggers.kafka.group.offsets import GroupTopics

TOPIC, OTHER = "t", "other"
NEVER_SEEN = GroupTopics()


class Broker:
    """Answers for one topic whose partitions hold offsets 0 to 99; stands in for consumer and admin."""

    def __init__(self, partitions: int, commits: dict[int, Commit]) -> None:
        self.topics = {TOPIC: TopicDescription("topic0", partitions, frozenset())}
        self.commits = {TopicPartition(TOPIC, number): commit for number, commit in commits.items()}

    def subscription(self) -> frozenset[str]:
        return frozenset({TOPIC})

    async def beginning_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 0)

    async def end_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 100)


def commit(
    checkpoint: Checkpoint, first_partition_count: int = 4, topic_id: str = "", first: tuple[str, ...] = ()
) -> Commit:
    """As this program writes it."""
    metadata = CheckpointText(first_partition_count, checkpoint, topic_id, first)
    return Commit(checkpoint.offset, metadata.encode(4096).text)


async def read(  # noqa: PLR0917  # what a start depends on
    monkeypatch: pytest.MonkeyPatch,
    broker: Broker,
    assigned: list[int],
    initial_offset: str,
    before: GroupTopics = NEVER_SEEN,
    topic: str = TOPIC,
) -> kafka_start.GroupStartOffsets:
    async def commits(*_: object) -> dict[TopicPartition, Commit]:
        return broker.commits

    async def topics(*_: object) -> dict[str, TopicDescription]:
        return broker.topics

    monkeypatch.setattr(kafka_start, "describe_topics", topics)
    settings: Any = SimpleNamespace(consumer_group="g", topics=[TOPIC], initial_offset=initial_offset)
    tps = [TopicPartition(topic, number) for number in assigned]
    group: Any = SimpleNamespace(topics=before, read=commits, given_id=lambda _: None)
    return await kafka_start.read_start_offsets(broker, broker, settings, tps, group)


async def starts(
    monkeypatch: pytest.MonkeyPatch, broker: Broker, assigned: list[int], initial_offset: str = "latest"
) -> tuple[dict[int, int], int]:
    """First offsets by partition number, and the partition count that commits carry on."""
    found = await read(monkeypatch, broker, assigned, initial_offset)
    return offsets_of(found), found.topics.first_partition_counts[TOPIC]


def offsets_of(found: kafka_start.GroupStartOffsets) -> dict[int, int]:
    return {tp.partition: checkpoint.offset for tp, checkpoint in found.checkpoints.items()}


async def test_a_group_without_commits_starts_at_its_initial_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await starts(monkeypatch, Broker(4, {}), [0, 1]) == ({0: 100, 1: 100}, 4)
    assert await starts(monkeypatch, Broker(4, {}), [0, 1], "earliest") == ({0: 0, 1: 0}, 4)


async def test_replicas_that_start_together_agree_on_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    others = dict.fromkeys([0, 1], commit(Checkpoint(100)))
    assert await starts(monkeypatch, Broker(4, others), [2, 3]) == ({2: 100, 3: 100}, 4)


async def test_a_partition_that_appears_later_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = dict.fromkeys(range(4), commit(Checkpoint(50)))
    assert await starts(monkeypatch, Broker(6, others), [3, 4, 5]) == ({3: 50, 4: 0, 5: 0}, 4)


async def test_after_commits_of_another_tool_nothing_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {0: Commit(50, "")}
    assert await starts(monkeypatch, Broker(4, others), [0, 1]) == ({0: 50, 1: 0}, 0)


async def test_acks_attempts_and_plan_come_back_with_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Checkpoint(50, attempts=((50, 51, 2),), plan=PlannedBatches(50, 53), acked=((55, 60),))
    found = await read(monkeypatch, Broker(4, {0: commit(told)}), [0, 1], "earliest")
    zero, one = (TopicPartition(TOPIC, number) for number in (0, 1))
    assert found.checkpoints == {zero: told, one: Checkpoint(0)}
    assert found.committed == {zero: told}


async def test_an_offset_that_a_tool_has_reset_clears_what_was_acked(monkeypatch: pytest.MonkeyPatch) -> None:
    told = commit(Checkpoint(50, acked=((55, 60),)))
    broker = Broker(4, {0: Commit(10, ""), 1: Commit(10, told.metadata)})
    found = await read(monkeypatch, broker, [0, 1], "earliest")
    assert set(found.committed.values()) == {Checkpoint(10)}


async def test_a_topic_that_appears_beside_one_with_commits_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(4, {0: commit(Checkpoint(50), topic_id="topic0", first=("topic0",))})
    broker.topics[OTHER] = TopicDescription("topic1", 2, frozenset())
    found = await read(monkeypatch, broker, [0, 1], "latest", topic=OTHER)
    assert offsets_of(found) == {0: 0, 1: 0}
    assert found.topics.first == frozenset({"topic0"})
    assert found.topics.first_partition_counts[OTHER] == 0


async def test_a_topic_beside_one_with_commits_of_an_older_program_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(4, {0: commit(Checkpoint(50))})
    broker.topics[OTHER] = TopicDescription("topic1", 2, frozenset())
    assert offsets_of(await read(monkeypatch, broker, [0], "latest", topic=OTHER)) == {0: 0}


async def test_replicas_that_start_together_agree_on_latest_for_all_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(4, {0: commit(Checkpoint(100), topic_id="topic0", first=("topic0", "topic1"))})
    broker.topics[OTHER] = TopicDescription("topic1", 2, frozenset())
    found = await read(monkeypatch, broker, [0, 1], "latest", topic=OTHER)
    assert offsets_of(found) == {0: 100, 1: 100}


async def test_a_topic_made_anew_is_read_from_its_beginning_by_a_process_that_knew_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = (await read(monkeypatch, Broker(4, {}), [0, 1], "latest")).topics
    broker = Broker(4, {})
    broker.topics[TOPIC] = TopicDescription("topic9", 4, frozenset())
    found = await read(monkeypatch, broker, [0, 1], "latest", before)
    assert offsets_of(found) == {0: 0, 1: 0}
    assert found.made_anew == {TOPIC}


async def test_a_broker_that_lags_behind_does_not_bring_back_a_topic_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = (await read(monkeypatch, Broker(4, {}), [0, 1], "earliest")).topics
    topics = before.with_anew(TOPIC, "topic9")
    assert not topics.is_made_anew(TOPIC, "topic0")
    new = Broker(4, {0: commit(Checkpoint(50), topic_id="topic9")})
    monkeypatch.setattr(group_offsets, "_RETRY_SECONDS", 0)
    reading = asyncio.create_task(read(monkeypatch, new, [0], "earliest", topics))
    await asyncio.wait([reading], timeout=0.1)
    assert not reading.done()
    new.topics[TOPIC] = TopicDescription("topic9", 4, frozenset())
    found = await reading
    assert offsets_of(found) == {0: 50}
    assert not found.made_anew


@pytest.mark.parametrize("initial_offset", ["earliest", "latest"])
async def test_a_commit_on_the_topic_that_had_the_name_before_counts_no_more(
    initial_offset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = commit(Checkpoint(50, acked=((55, 60),)), topic_id="topic9", first=("topic9",))
    found = await read(monkeypatch, Broker(4, {0: old, 1: old}), [0, 1], initial_offset)
    assert offsets_of(found) == {0: 0, 1: 0}
    assert not found.committed
    assert found.made_anew == {TOPIC}


async def test_partitions_without_a_leader_are_left_out_and_the_others_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(4, {2: commit(Checkpoint(50))})
    broker.topics[TOPIC] = TopicDescription("topic0", 4, frozenset({1, 3}))
    found = await read(monkeypatch, broker, [0, 1, 2, 3], "earliest")
    assert offsets_of(found) == {0: 0, 2: 50}


class Answer:
    """A response of the coordinator."""

    def __init__(self, error_code: int, rows: list[tuple[int, int, str, int]]) -> None:
        self.error_code = error_code
        self.topics = [(TOPIC, rows)]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(16, []),  # not the coordinator
        Answer(14, []),  # the group is loading
        Answer(0, [(0, -1, "", 16)]),
        Answer(0, []),  # says nothing about the partition
    ],
    ids=["moved", "loading", "an error for the partition", "nothing"],
)
async def test_an_answer_that_is_an_error_is_not_taken_for_no_commits(
    monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    async def find_coordinator(*_: object) -> int:
        return 1

    async def send(*_: object) -> Answer:
        return answer

    monkeypatch.setattr(AIOKafkaAdminClient, "find_coordinator", find_coordinator)
    monkeypatch.setattr(AIOKafkaAdminClient, "_send_request", send)
    admin = AIOKafkaAdminClient(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaError):
        await fetch_commits(admin, "g", [TopicPartition(TOPIC, 0)])
