"""The offsets of a group: attributes of the shards, with what Headrace keeps beside each."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import (
    MAX_TEXT_CHARS,
    CheckpointText,
    Encoded,
    decode_text,
)
from headrace.runtime.streams.offset_store import CommitRefusedError
from headrace.runtime.v3io.addresses import StreamPath
from headrace.runtime.v3io.client import V3ioClient, V3ioError
from headrace.runtime.v3io.group_format import INODE, LAST_SEQUENCE, sequence_attribute, text_attribute
from headrace.runtime.v3io.items import SHARD, Attributes, get_item, put_attributes
from headrace.runtime.wire.produce import Outgoing

FIRST_OFFSET = 1
"""The first sequence number of any shard."""


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard as it was found: what is committed, one more than its last record, and which one it is.

    `inode` is another one where the stream was made anew; None where the server doesn't say it.
    """

    committed: Checkpoint | None
    end: int
    inode: int | None


class ShardOffsets:
    """An OffsetStore (runtime/streams/offset_store.py) whose offsets are attributes of the shards.

    An offset is one more than the sequence number that the attribute says is done.
    """

    # The text has the form of Kafka's commit metadata, and the same bound: its readers are the same code.
    max_text_chars = MAX_TEXT_CHARS
    max_request_chars = 2**31  # a request for each shard
    unanswered_at = -inf  # a condition keeps commits that come late from moving anything back

    def __init__(
        self,
        client: V3ioClient,
        stream: StreamPath,
        group_name: str,
        generation: Callable[[], int | None],
        on_recreated: Callable[[PartitionKey], None],
    ) -> None:
        """`on_recreated` is called where a commit has met another shard of that name."""
        self._client = client
        self._stream = stream
        self._sequence, self._text = sequence_attribute(group_name), text_attribute(group_name)
        self._generation = generation
        self._found: dict[PartitionKey, int | None] = {}
        self._inodes: dict[PartitionKey, int | None] = {}
        self._on_recreated = on_recreated

    def expect(self, states: Mapping[PartitionKey, ShardState]) -> None:
        """Note which shards were found: their records are what is handled from the next `begin` on."""
        self._found |= {key: state.inode for key, state in states.items()}

    def begin(self, key: PartitionKey) -> None:
        """Have commits be for the shard that was found last; for any of that name, if none was."""
        self._inodes[key] = self._found.pop(key, None)

    def inode_of(self, key: PartitionKey) -> int | None:
        """Return the inode number of the shard that commits are for; None where it isn't known."""
        return self._inodes.get(key)

    @property
    def generation(self) -> int | None:
        """The generation of the membership; None while that isn't renewed."""
        return self._generation()

    def encode(self, key: PartitionKey, checkpoint: Checkpoint, max_chars: int) -> Encoded:
        """Return the text that the next owner reads; text that belongs to another offset is ignored by it."""
        return CheckpointText(0, checkpoint).encode(max_chars)

    async def read(self, shard: int) -> ShardState | None:
        """Return what is committed of a shard; None where there is no such shard yet. Raises V3ioError."""
        names = (self._sequence, self._text, LAST_SEQUENCE, INODE)
        item = await get_item(self._client, self._stream.item_path(shard), names)
        if item is None:
            return None
        end, inode = int(item.get(LAST_SEQUENCE, 0)) + 1, item.get(INODE)
        if self._sequence not in item:
            return ShardState(None, end, inode)
        offset = int(item[self._sequence]) + 1
        # v3io-go commits the number alone. The text beside it is of an older commit then, and is not decoded.
        decoded = decode_text(offset, str(item.get(self._text, "")))
        return ShardState(decoded.checkpoint if decoded else Checkpoint(offset), end, inode)

    async def write(
        self,
        offsets: Mapping[PartitionKey, tuple[int, str]],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> Mapping[PartitionKey, str]:
        """Commit by one request for each shard, all at once; return why shards weren't committed.

        Raises CommitRefusedError where none was.
        """
        assert not outgoing
        results = await asyncio.gather(*(self._write(key, *it) for key, it in offsets.items()))
        refused = {key: why for key, why in zip(offsets, results, strict=True) if why}
        if len(refused) == len(offsets):
            raise CommitRefusedError("; ".join(sorted(set(refused.values()))))
        return refused

    async def _write(self, key: PartitionKey, offset: int, text: str) -> str:
        """Commit one shard; return why it wasn't, or an empty string.

        The conditions keep a commit from moving back: another member may be, or have been, further on.
        """
        path, name = self._stream.item_path(key.partition), self._sequence
        done, inode = offset - 1, self.inode_of(key)
        condition = (
            f"(__obj_type == {SHARD}) AND ({LAST_SEQUENCE} >= {done})"
            f" AND (not(exists({name})) OR ({name} <= {done}))"
        )
        if inode is not None:
            # A stream that was made anew under its name has other shards: theirs must not get this commit.
            condition += f" AND ({INODE} == {inode})"
        try:
            values: Attributes = {name: done, self._text: text}
            refused = await put_attributes(self._client, path, values, condition)
            if refused is None:
                return ""
            # A condition that doesn't hold is all that is known by now: the shard itself tells which part.
            state = await self.read(key.partition)
        except V3ioError as error:
            # Returned, not raised: the other shards of the same commit have requests of their own under way.
            return str(error)
        # A shard that doesn't exist has no records, so there is nothing that could be lost.
        if state is None:
            return "" if offset <= FIRST_OFFSET else "the shard is gone"
        if inode not in {None, state.inode}:
            self._on_recreated(key)
            return "the stream was made anew"
        if state.committed is not None and state.committed.offset > offset:
            return f"offset {state.committed.offset} is committed there, by another member or by hand"
        return f"the shard takes no commit: {refused.reason}"
