"""A broker that is a model: the log of each partition, the group's commits, and who has which partition.

A topic that is made anew has the same name, another id, and logs of its own, which begin at 0. A log has a
name for each life of its topic, by which all that is known of its records is kept.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from checks import History
from chunks import Written, batch
from shape import record_key
from worker_bench import Record

from headrace.runtime.partitions.chunk import Chunk, ChunkSlice
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import TOPIC_ID_CHARS, CheckpointText, decode_text
from headrace.runtime.streams.offset_store import CommitRefusedError, TextTooLongError
from headrace.runtime.wire.records import WireRecord
from headrace.triggers.kafka.format.decoder import decode

Piece = Sequence[WireRecord]


class StaleEpochError(Exception):
    """The commit's epoch isn't the group's, and the broker takes no earlier one."""


class Group:
    """Grows by `produce`. The owners are whoever the last rebalance has named."""

    def __init__(self, rng: random.Random, partitions: int, *, are_chunks: bool, max_text_chars: int) -> None:
        self.keys = [PartitionKey("t", number) for number in range(partitions)]
        self.topic_id = 0
        # All that follows goes by logs.
        self.produced: dict[PartitionKey, list[int]] = {key: [] for key in self.keys}
        self.ends = dict.fromkeys(self.keys, 0)
        self.poison: set[tuple[PartitionKey, int]] = set()
        """Records whose handler always fails, or dies."""
        self.oversized: set[tuple[PartitionKey, int]] = set()
        """Records whose messages are always refused."""
        self.too_large: set[bytes] = set()
        """Messages that are refused."""
        self.texts: dict[PartitionKey, tuple[int, str]] = {}
        """By partition."""
        self.epochs: dict[PartitionKey, int] = defaultdict(int)
        """Of the transactional producers of each partition: the last one that was made is its owner's."""
        self.generation = 0
        self.epoch = 0
        """It grows whenever a partition changes hands."""
        self.holders: dict[PartitionKey, tuple[object, int]] = {}
        """Who has a partition, and since which epoch."""
        self.takes_earlier_epochs = False
        """As Kafka since 4.3, of what its holder had then and has kept; before that none of another epoch."""
        self.max_text_chars = max_text_chars
        self.history: History
        self._rng = rng
        self._are_chunks = are_chunks
        self._pieces: dict[PartitionKey, list[Piece]] = defaultdict(list)

    def log(self, key: PartitionKey, topic_id: int | None = None) -> PartitionKey:
        """The name of the log of this partition, now or in an earlier life of its topic."""
        life = self.topic_id if topic_id is None else topic_id
        return key._replace(topic=f"{key.topic}~{life}") if life else key

    def make_anew(self) -> None:
        """The topic: what it held is gone, and so are the commits."""
        self.topic_id += 1
        self.texts.clear()
        for log in map(self.log, self.keys):
            self.produced[log], self.ends[log] = [], 0

    def end_of(self, key: PartitionKey) -> int:
        """Of its log."""
        return self.ends[self.log(key)]

    def produce(
        self, key: PartitionKey, count: int, *, is_poisoned: bool = False, is_oversized: bool = False
    ) -> None:
        """One batch; sometimes offsets before it hold nothing."""
        key = self.log(key)
        first = self.ends[key] + self._rng.choice([0, 0, 0, 1, 3])
        offsets = range(first, first + count)
        if self._are_chunks and self._rng.random() < 0.8:
            written = [Written(value=str(offset).encode()) for offset in offsets]
            piece: Piece = ChunkSlice(Chunk(first, count, batch(first, written), decode))
        else:
            piece = [Record(offset, str(offset).encode(), record_key(offset)) for offset in offsets]
        self._pieces[key].append(piece)
        self.produced[key] += offsets
        self.ends[key] = offsets.stop
        if is_poisoned:
            self.poison.add((key, self._rng.choice(offsets)))
        if is_oversized:
            self.oversized.add((key, self._rng.choice(offsets)))

    def end_a_transaction(self, key: PartitionKey) -> None:
        """An offset that holds no record."""
        self.ends[self.log(key)] += 1

    def fetch(self, key: PartitionKey, position: int, count: int) -> Piece:
        """What follows: of a chunk all, of records so many."""
        for piece in self._pieces[self.log(key)]:
            if piece[-1].offset >= position:
                skip = max(0, position - piece[0].offset)
                return piece[skip:] if isinstance(piece, ChunkSlice) else piece[skip : skip + count]
        return ()

    def has_committed(self, key: PartitionKey) -> bool:
        """And not for another topic of that name."""
        if key not in self.texts:
            return False
        found = decode_text(*self.texts[key])
        return found is not None and _life_of(found) == self.topic_id

    def start_of(self, key: PartitionKey) -> Checkpoint:
        """As the next owner reads it."""
        if key not in self.texts:
            return Checkpoint(0)
        offset, text = self.texts[key]
        found = decode_text(offset, text)
        assert found is not None
        return found.checkpoint if _life_of(found) == self.topic_id else Checkpoint(0)

    def next_epoch(self, key: PartitionKey) -> int:
        """Of another producer: no transaction of an earlier one ends any more."""
        self.epochs[key] += 1
        return self.epochs[key]

    def give(self, holder: object, keys: Iterable[PartitionKey]) -> None:
        """Have these change hands, as of the present epoch."""
        self.holders |= dict.fromkeys(keys, (holder, self.epoch))

    def commit(
        self,
        holder: object,
        membership: tuple[int | None, int],
        offsets: Mapping[PartitionKey, tuple[int, str]],
        *,
        is_late: bool = False,
    ) -> None:
        """One request, under a generation and an epoch. Refuses whoever isn't in the current generation."""
        generation, epoch = membership
        if generation != self.generation:
            raise CommitRefusedError("the group has gone on")
        if epoch != self.epoch and not (self.takes_earlier_epochs and self._has_kept(holder, epoch, offsets)):
            raise StaleEpochError
        if max(len(text) for _, text in offsets.values()) > self.max_text_chars:
            raise TextTooLongError("the metadata is too large")
        for key, said in offsets.items():
            if is_late:
                self._commit_late(key, said)
            else:
                self.end_transaction(key, said, ())

    def _has_kept(self, holder: object, epoch: int, keys: Iterable[PartitionKey]) -> bool:
        found = [self.holders.get(key, (None, 0)) for key in keys]
        return all(its is holder and since <= epoch for its, since in found)

    def _commit_late(self, key: PartitionKey, said: tuple[int, str]) -> None:
        self.texts[key] = said
        found = decode_text(*said)
        assert found is not None
        self.history.on_late_commit(self.log(key, _life_of(found)), found.checkpoint)

    def end_transaction(self, key: PartitionKey, said: tuple[int, str], messages: Sequence[bytes]) -> None:
        """With a commit, of offset and text. Brokers ask for no generation here."""
        self.texts[key] = said
        found = decode_text(*said)
        assert found is not None
        log = self.log(key, _life_of(found))
        self.history.on_written(log, messages)
        self.history.on_commit(log, found.checkpoint)


def shown_id(life: int) -> str:
    """The id of the topic in this life, as a commit has it."""
    return str(life).rjust(TOPIC_ID_CHARS, "0")


def _life_of(text: CheckpointText) -> int:
    return int(text.topic_id or 0)
