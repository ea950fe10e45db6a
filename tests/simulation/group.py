"""A broker that is a model: the log of each partition, the group's commits, and who has which partition."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

from checks import History
from chunks import Written, batch
from shape import record_key
from worker_bench import Record

from headrace.runtime.partitions.buffers.chunk import Chunk, ChunkSlice
from headrace.runtime.partitions.checkpoint import Checkpoint
from headrace.runtime.partitions.checkpoint_text import decode_text
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.streams.offset_store import CommitRefusedError, TextTooLongError
from headrace.runtime.wire.frames import WireRecord
from headrace.triggers.kafka.format.decoder import decode

Piece = Sequence[WireRecord]


class Group:
    """Grows by `produce`. The owners are whoever the last rebalance has named."""

    def __init__(self, rng: random.Random, partitions: int, *, are_chunks: bool, max_text_chars: int) -> None:
        self.keys = [PartitionKey("t", number) for number in range(partitions)]
        self.produced: dict[PartitionKey, list[int]] = {key: [] for key in self.keys}
        self.ends = dict.fromkeys(self.keys, 0)
        self.poison: set[tuple[PartitionKey, int]] = set()
        """Records whose handler always fails, or dies."""
        self.texts: dict[PartitionKey, tuple[int, str]] = {}
        self.generation = 0
        self.max_text_chars = max_text_chars
        self.history: History
        self._rng = rng
        self._are_chunks = are_chunks
        self._pieces: dict[PartitionKey, list[Piece]] = defaultdict(list)

    def produce(self, key: PartitionKey, count: int, *, is_poisoned: bool) -> None:
        """One batch; sometimes offsets before it hold nothing."""
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

    def end_a_transaction(self, key: PartitionKey) -> None:
        """An offset that holds no record."""
        self.ends[key] += 1

    def fetch(self, key: PartitionKey, position: int, count: int) -> Piece:
        """What follows: of a chunk all, of records so many."""
        for piece in self._pieces[key]:
            if piece[-1].offset >= position:
                skip = max(0, position - piece[0].offset)
                return piece[skip:] if isinstance(piece, ChunkSlice) else piece[skip : skip + count]
        return ()

    def start_of(self, key: PartitionKey) -> Checkpoint:
        """As the next owner reads it."""
        if key not in self.texts:
            return Checkpoint(0)
        offset, text = self.texts[key]
        found = decode_text(offset, text)
        return Checkpoint(offset) if found is None else found.checkpoint

    def commit(
        self,
        generation: int | None,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        messages: Mapping[PartitionKey, Sequence[bytes]],
    ) -> None:
        """One request, or a transaction for each. Refuses whoever isn't in the current generation."""
        if generation != self.generation:
            raise CommitRefusedError("the group has gone on")
        if max(len(text) for _, text in offsets.values()) > self.max_text_chars:
            raise TextTooLongError("the metadata is too large")
        self.texts |= offsets
        for key in offsets:
            self.history.on_written(key, messages.get(key, ()))
            self.history.on_commit(key, self.start_of(key))
