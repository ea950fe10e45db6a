"""Start offsets of assigned partitions: the group's commits, or the function's initialOffset."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import LeaderNotAvailableError

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import CheckpointText, decode_text
from headrace.triggers.kafka.client.topics import TopicDescription, describe_topics
from headrace.triggers.kafka.group.offsets import GroupOffsets, GroupTopics, ask_until_answered
from headrace.triggers.kafka.settings.model import KafkaSettings

CommitTexts = Mapping[TopicPartition, CheckpointText | None]


@dataclass(frozen=True, slots=True)
class GroupStartOffsets:
    """Start offsets by assigned partition, and the group's commits where it has any.

    Partitions without a leader are left out. `made_anew`: topics that aren't those that were read before.
    """

    checkpoints: Mapping[TopicPartition, Checkpoint]
    committed: Mapping[TopicPartition, Checkpoint]
    topics: GroupTopics
    made_anew: frozenset[str] = frozenset()


async def read_start_offsets(
    consumer: AIOKafkaConsumer,
    admin: AIOKafkaAdminClient,
    settings: KafkaSettings,
    assigned: Collection[TopicPartition],
    group: GroupOffsets,
) -> GroupStartOffsets:
    """Return where partitions start. Asks until the broker answers for some of them."""
    return await ask_until_answered(lambda: _read_once(consumer, admin, settings, assigned, group))


async def read_end_offsets(
    consumer: AIOKafkaConsumer, assigned: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Return where the partitions end now. Asks until the broker answers: acks may wait for it."""
    return await ask_until_answered(lambda: consumer.end_offsets(list(assigned)))


async def _read_once(
    consumer: AIOKafkaConsumer,
    admin: AIOKafkaAdminClient,
    settings: KafkaSettings,
    assigned: Collection[TopicPartition],
    group: GroupOffsets,
) -> GroupStartOffsets:
    # A look before may know more than the answer of a broker that lags behind.
    before = group.topics
    described = await describe_topics(admin, {*consumer.subscription(), *(tp.topic for tp in assigned)})
    found = {name: topic for name, topic in described.items() if topic.id not in before.gone}
    readable = [tp for tp in assigned if _is_readable(tp, found.get(tp.topic), group)]
    if assigned and not readable:
        raise LeaderNotAvailableError(", ".join(f"{tp.topic}/{tp.partition}" for tp in sorted(assigned)))
    # Commits of all partitions of the topics: those that other members hold tell when the group came to a
    # topic.
    every = {TopicPartition(name, n) for name, topic in found.items() for n in range(topic.partition_count)}
    commits = await group.read(sorted(every.union(readable)))
    texts = {tp: decode_text(commit.offset, commit.metadata) for tp, commit in commits.items()}
    outdated = {tp for tp, text in texts.items() if _is_outdated(text, found.get(tp.topic))}
    topics = _topics(found, texts, outdated, before)
    committed = {
        tp: metadata.checkpoint if (metadata := texts[tp]) is not None else Checkpoint(commits[tp].offset)
        for tp in readable
        if tp in commits and tp not in outdated
    }
    fresh = [tp for tp in readable if tp not in committed]
    is_latest, counts = settings.initial_offset == "latest", topics.first_partition_counts
    # `latest` is for what was there when the group came: a partition that has appeared since is read from its
    # beginning, or what was written before anybody noticed it would be skipped.
    at_end = [tp for tp in fresh if is_latest and tp.partition < counts[tp.topic]]
    at_beginning = [tp for tp in fresh if tp not in at_end]
    # Real offsets, not names of ends: they are committed at once, so that initialOffset isn't asked twice.
    offsets: dict[TopicPartition, int] = {}
    if at_end:
        offsets |= await consumer.end_offsets(at_end)
    if at_beginning:
        offsets |= await consumer.beginning_offsets(at_beginning)
    fresh_starts = {tp: Checkpoint(offset) for tp, offset in offsets.items()}
    anew = {tp.topic for tp in outdated} | {n for n, it in found.items() if before.is_made_anew(n, it.id)}
    mine = {tp.topic for tp in assigned}
    return GroupStartOffsets(committed | fresh_starts, committed, topics, frozenset(anew & mine))


def _is_readable(tp: TopicPartition, topic: TopicDescription | None, group: GroupOffsets) -> bool:
    """Whether the partition exists, has a leader, and lies in the log that the group has given."""
    if topic is None or tp.partition in topic.leaderless or not 0 <= tp.partition < topic.partition_count:
        return False
    return group.given_id(PartitionKey(*tp)) in {None, topic.id}


def _is_outdated(text: CheckpointText | None, topic: TopicDescription | None) -> bool:
    """Whether a commit is about the offsets of another topic, which had the same name."""
    return text is not None and topic is not None and text.topic_id not in {"", topic.id}


def _topics(
    found: Mapping[str, TopicDescription],
    texts: CommitTexts,
    outdated: Collection[TopicPartition],
    before: GroupTopics,
) -> GroupTopics:
    ids = {name: topic.id for name, topic in found.items()}
    first = _first_topics(texts, before, ids.values())
    current = {tp: text for tp, text in texts.items() if tp not in outdated}
    counts = {
        name: _first_partition_count(name, current, topic.partition_count if topic.id in first else 0)
        for name, topic in found.items()
    }
    # Ids that others have followed: no answer with one of these counts any more.
    gone = {before.ids[name] for name, topic in found.items() if before.is_made_anew(name, topic.id)}
    counts = {**before.first_partition_counts, **counts}
    return GroupTopics({**before.ids, **ids}, counts, first, before.gone | gone)


def _first_topics(texts: CommitTexts, before: GroupTopics, ids: Collection[str]) -> frozenset[str]:
    """Return the ids of the topics that were there when the group came.

    The group's commits say it; else what was so when this process came; else, for the first member of all,
    what is now. Commits that say nothing of it say that the group was here: what has no commit counts as new.
    """
    known = [text for text in texts.values() if text is not None and text.first_topics]
    if known:
        return frozenset.intersection(*(frozenset(text.first_topics) for text in known))
    if before.first is not None:
        return before.first
    return frozenset() if texts else frozenset(ids)


def _first_partition_count(topic: str, texts: CommitTexts, count: int) -> int:
    """Return how many partitions a topic had when the group came, by its commits, or else `count`.

    Commits without our metadata say that the group was here, but not when: all else counts as new.
    """
    here = [metadata for tp, metadata in texts.items() if tp.topic == topic]
    known = [metadata.first_partition_count for metadata in here if metadata is not None]
    return min(known, default=0 if here else count)
