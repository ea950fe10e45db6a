"""Failed records on their way to another stream."""

import logging
import struct

from headrace.runtime.errors import BrokerError
from headrace.runtime.partitions.key import PartitionKey
from headrace.runtime.v3io.addresses import StreamPath
from headrace.runtime.v3io.client import V3ioClient, V3ioRefusedError
from headrace.runtime.v3io.records import NewRecord
from headrace.runtime.v3io.streams import describe, put
from headrace.runtime.wire.records import WireRecord

logger = logging.getLogger(__name__)

ORIGIN = struct.Struct(">IQI")
"""ClientInfo of a dead letter, which has 16 bytes: shard, sequence number, attempts."""


class V3ioDeadLetters:
    """The writer to one stream. Records of one shard stay in order: they go to the shard of its number."""

    def __init__(self, client: V3ioClient, stream: StreamPath | None) -> None:
        self._client = client
        self._stream = stream
        self._shard_count = 0

    async def write(self, record: WireRecord, key: PartitionKey, reason: str, attempts: int) -> None:
        """Return once the record is written, byte for byte, with its partition key. Raises BrokerError."""
        assert self._stream is not None, "a rule asks for it"
        stream, origin = self._stream, ORIGIN.pack(key.partition, record.offset, min(attempts, 2**32 - 1))
        try:
            if not self._shard_count:
                self._shard_count = (await describe(self._client, stream)).shard_count
            # The dead-letter stream may have fewer shards than the one that the records came from.
            shard = key.partition % self._shard_count
            partition_key = (record.key or b"").decode(errors="replace")
            new = NewRecord(record.value or b"", partition_key, origin, shard)
            await put(self._client, stream, [new])
        except V3ioRefusedError as refused:
            self._shard_count = 0  # the stream may be made anew with another number of shards
            if not refused.is_absent:
                raise
            create = f"`headrace v3io streams --create {stream}:8`"
            raise BrokerError(f"there is no dead-letter stream {stream}: create it with {create}") from None
        # ClientInfo says where the record came from; the 16 bytes have no room for why it failed.
        logger.warning("%s offset %d is in %s: %s", key, record.offset, stream, reason)
