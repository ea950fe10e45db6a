"""Records into a stream: each to its shard, all of a call at once."""

import base64
import itertools
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from aiohttp import web

from headrace.runtime.embedded.v3io.errors import (
    ApiError,
    invalid_argument,
    shard_id_out_of_range,
)
from headrace.runtime.embedded.v3io.store.address import Address
from headrace.runtime.embedded.v3io.store.node import Node, NodeKind
from headrace.runtime.embedded.v3io.store.records import IncomingRecord
from headrace.runtime.embedded.v3io.store.store import Store
from headrace.runtime.embedded.v3io.streams import stream_at
from headrace.runtime.embedded.v3io.web.answers import json_answer
from headrace.runtime.embedded.v3io.web.call import FunctionCall

MAX_PUT_RECORDS = 1000
_MOST_DATA_BYTES = 2 << 20
_MOST_CLIENT_INFO_BYTES = 16
_MOST_PARTITION_KEY_BYTES = 256

PutOutcome = dict[str, int | str]


class _Placed(NamedTuple):
    """`place` is the record's among those of its call."""

    place: int
    record: IncomingRecord


class Producing:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns = defaultdict[int, Iterator[int]](itertools.count)

    async def put_records(self, call: FunctionCall) -> web.Response:
        """A record that is refused refuses no other."""
        stream = stream_at(self._store, call.address)
        sent = call.items("Records", MAX_PUT_RECORDS)
        outcomes: list[PutOutcome] = [{} for _ in sent]
        placed = defaultdict[int, list[_Placed]](list)
        for place, fields in enumerate(sent):
            try:
                shard_id, record = self._placed(fields, stream)
                placed[shard_id].append(_Placed(place, record))
            except ApiError as error:
                outcomes[place] = {"ErrorCode": error.code, "ErrorMessage": error.message}
        failed = sum(map(bool, outcomes))
        if placed:
            self._make_room(stream, placed)
            self._append(call.address, placed, outcomes)
        return json_answer({"FailedRecordCount": failed, "Records": outcomes})

    def _make_room(self, stream: Node, placed: Iterable[int]) -> None:
        """Old records go although nobody may ever read the shards."""
        for shard_id in placed:
            shard = self._store.nodes.find(Address(stream.path, str(shard_id)))
            if shard is not None:
                self._store.retention.enforced(shard, stream.retention_hours)

    def _append(self, stream: Address, placed: dict[int, list[_Placed]], outcomes: list[PutOutcome]) -> None:
        with self._store.database.transaction():
            for shard_id, entries in placed.items():
                shard = self._shard(stream.below(str(shard_id)))
                first = self._store.records.append(shard, [entry.record for entry in entries])
                for sequence, entry in enumerate(entries, first):
                    outcomes[entry.place] = {"SequenceNumber": sequence, "ShardId": shard_id}
            self._store.retention.sweep()

    def _shard(self, address: Address) -> Node:
        """Its first record makes it, be it of a file that somebody has put in its place."""
        node = self._store.nodes.find(address)
        if node is None:
            return self._store.nodes.make(address, NodeKind.SHARD)
        if node.is_directory:
            raise invalid_argument(f"a directory is in the place of shard {address.name}: delete it")
        return node if node.kind == NodeKind.SHARD else self._store.nodes.touch(node, kind=NodeKind.SHARD)

    def _placed(self, fields: Any, stream: Node) -> tuple[int, IncomingRecord]:
        """A shard's number, and what goes there. ApiError."""
        if not isinstance(fields, dict):
            raise invalid_argument("a record is an object with Data")
        data = _decoded(fields, "Data", _MOST_DATA_BYTES)
        if data is None:
            raise invalid_argument("a record has Data, in base64")
        client_info = _decoded(fields, "ClientInfo", _MOST_CLIENT_INFO_BYTES)
        key = _partition_key(fields.get("PartitionKey"))
        return self._shard_id(fields.get("ShardId"), key, stream), IncomingRecord(client_info, key, data)

    def _shard_id(self, wanted: Any, key: str | None, stream: Node) -> int:
        """What it says, else what its key says, else the next in turn: a stream begins with shard 0."""
        if wanted is None:
            turn = next(self._turns[stream.inode]) if key is None else zlib.crc32(key.encode())
            return turn % stream.shard_count
        if type(wanted) is not int:
            raise invalid_argument(f"ShardId is {str(wanted)[:40]!r}, expected a whole number")
        if not 0 <= wanted < stream.shard_count:
            raise shard_id_out_of_range(wanted, stream.shard_count)
        return wanted


def _decoded(fields: dict[str, Any], name: str, most_bytes: int) -> bytes | None:
    encoded = fields.get(name)
    if encoded is None:
        return None
    try:
        found = base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError) as error:
        raise invalid_argument(f"{name} is base64: {error}") from error
    if len(found) > most_bytes:
        raise invalid_argument(f"{name} has {len(found)} bytes, at most {most_bytes}")
    return found


def _partition_key(key: Any) -> str | None:
    """An empty one is none: clients send it for that."""
    if key is None or key == "":
        return None
    try:
        if isinstance(key, str) and len(key.encode()) <= _MOST_PARTITION_KEY_BYTES:
            return key
    except UnicodeEncodeError:
        pass
    raise invalid_argument(f"PartitionKey is a string of at most {_MOST_PARTITION_KEY_BYTES} bytes")
