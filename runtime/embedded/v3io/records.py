"""The functions of records: put into a stream, sought and read in a shard."""

import base64
import itertools
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from aiohttp import web

from headrace.runtime.embedded.v3io.calls import FunctionCall, json_answer
from headrace.runtime.embedded.v3io.errors import (
    ApiError,
    illegal_location,
    invalid_argument,
    shard_id_out_of_range,
)
from headrace.runtime.embedded.v3io.nodes import NANOSECONDS, Address, Node, NodeKind
from headrace.runtime.embedded.v3io.store import IncomingRecord, Store, StoredRecord
from headrace.runtime.embedded.v3io.streams import stream_at

MAX_PUT_RECORDS = 1000
_MAX_DATA_BYTES = 2 << 20
_MAX_CLIENT_INFO_BYTES = 16
_MAX_PARTITION_KEY_BYTES = 256
PutOutcome = dict[str, int | str]


class _Placed(NamedTuple):
    """A record of a call that goes to a shard. `place` is its index among those of the call."""

    place: int
    record: IncomingRecord


class RecordWriter:
    """PutRecords: each record goes to its shard, all of a call in one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # By stream; begun anew with the process, which no client can tell.
        self._turns = defaultdict[int, Iterator[int]](itertools.count)

    async def put_records(self, call: FunctionCall) -> web.Response:
        """Put records, and answer for each: one that is refused doesn't keep others from being put."""
        stream = stream_at(self._store, call.address)
        sent = call.items("Records", MAX_PUT_RECORDS)
        outcomes: list[PutOutcome] = [{} for _ in sent]
        # By shard, in the order of the call: records of a shard keep it.
        placed = defaultdict[int, list[_Placed]](list)
        for place, fields in enumerate(sent):
            try:
                shard_id, record = self._placed(fields, stream)
                placed[shard_id].append(_Placed(place, record))
            except ApiError as error:
                outcomes[place] = {"ErrorCode": error.code, "ErrorMessage": error.message}
        failed = sum(map(bool, outcomes))
        # Where all were refused there is nothing to write, and no shard is made.
        if placed:
            # Before the transaction that appends: this begins its own, and SQLite's don't nest.
            self._make_room(stream, placed)
            self._append(call.address, placed, outcomes)
        return json_answer({"FailedRecordCount": failed, "Records": outcomes})

    def _make_room(self, stream: Node, placed: Iterable[int]) -> None:
        """Delete records that are too old: nobody may ever read the shards, which would do the same."""
        for shard_id in placed:
            shard = self._store.nodes.find(Address(stream.path, str(shard_id)))
            if shard is not None:
                self._store.records.without_expired(shard, stream.retention_hours)

    def _append(self, stream: Address, placed: dict[int, list[_Placed]], outcomes: list[PutOutcome]) -> None:
        with self._store.database.transaction():
            for shard_id, entries in placed.items():
                shard = self._shard(stream.below(str(shard_id)))
                first = self._store.records.append(shard, [entry.record for entry in entries])
                for sequence, entry in enumerate(entries, first):
                    outcomes[entry.place] = {"SequenceNumber": sequence, "ShardId": shard_id}
            self._store.records.sweep()

    def _shard(self, address: Address) -> Node:
        """Return a shard, which its first record makes, also of a file that somebody has put in its place."""
        node = self._store.nodes.find(address)
        if node is None:
            return self._store.nodes.make(address, NodeKind.SHARD)
        if node.is_directory:
            raise invalid_argument(f"a directory is in the place of shard {address.name}: delete it")
        return node if node.kind == NodeKind.SHARD else self._store.nodes.touch(node, kind=NodeKind.SHARD)

    def _placed(self, fields: Any, stream: Node) -> tuple[int, IncomingRecord]:
        """Return the number of the shard that a record goes to, and the record. ApiError."""
        if not isinstance(fields, dict):
            raise invalid_argument("a record is an object with Data")
        data = _decoded(fields, "Data", _MAX_DATA_BYTES)
        if data is None:
            raise invalid_argument("a record has Data, in base64")
        client_info = _decoded(fields, "ClientInfo", _MAX_CLIENT_INFO_BYTES)
        key = _partition_key(fields.get("PartitionKey"))
        return self._shard_id(fields.get("ShardId"), key, stream), IncomingRecord(client_info, key, data)

    def _shard_id(self, requested: Any, key: str | None, stream: Node) -> int:
        """Return the shard that the record names, else that of its key, else the next in turn, from 0 on."""
        if requested is None:
            # By crc32: Python's own hash differs from process to process, and so would the shard of a key.
            turn = next(self._turns[stream.inode]) if key is None else zlib.crc32(key.encode())
            return turn % stream.shard_count
        if type(requested) is not int:
            raise invalid_argument(f"ShardId is {str(requested)[:40]!r}, expected a whole number")
        if not 0 <= requested < stream.shard_count:
            raise shard_id_out_of_range(requested, stream.shard_count)
        return requested


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
    """Return the partition key; None for an empty one, which clients send for none."""
    if key is None or key == "":
        return None
    try:
        if isinstance(key, str) and len(key.encode()) <= _MAX_PARTITION_KEY_BYTES:
            return key
    except UnicodeEncodeError:
        pass
    raise invalid_argument(f"PartitionKey is a string of at most {_MAX_PARTITION_KEY_BYTES} bytes")


_LOCATION = struct.Struct(">QQ")  # the shard's inode, which is never used again, and a sequence number
_DEFAULT_RECORDS = 1000
_MAX_GET_RECORDS = 10_000
_MAX_ANSWER_BYTES = 10 << 20
_MAX_NUMBER = (1 << 63) - 1
_MILLISECOND_NS = 1_000_000


class RecordReader:
    """Seek and GetRecords: records of a shard from a location on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seeks: dict[str, Callable[[FunctionCall, Node], int]] = {
            "EARLIEST": lambda _, shard: shard.first_sequence,
            "LATEST": lambda _, shard: shard.last_sequence + 1,
            "SEQUENCE": _by_sequence,
            "TIME": self._by_time,
        }

    async def seek(self, call: FunctionCall) -> web.Response:
        shard = self._shard(call)
        kind = call.text("Type").upper()
        if kind not in self._seeks:
            raise invalid_argument(f"Type is {kind[:40]!r}, expected {', '.join(self._seeks)}")
        return json_answer({"Location": _location(shard, self._seeks[kind](call, shard))})

    async def get_records(self, call: FunctionCall) -> web.Response:
        """Return records from the location on; at the end of the shard, none."""
        shard = self._shard(call)
        first = _sequence_at(call.text("Location"), shard)
        most = call.whole("Limit", 1, _MAX_NUMBER, _DEFAULT_RECORDS)
        read = self._store.records.read(shard, first, min(most, _MAX_GET_RECORDS))
        shown, last = _shown_records(read)
        following = last.sequence + 1 if last else first
        return json_answer(
            {
                "NextLocation": _location(shard, following),
                "MSecBehindLatest": self._behind_ms(shard, last),
                "RecordsBehindLatest": shard.last_sequence + 1 - following,
                "Records": shown,
            }
        )

    def _behind_ms(self, shard: Node, last: StoredRecord | None) -> int:
        """Return by how many ms the last record of the shard is younger than the last of the answer."""
        if last is None or last.sequence == shard.last_sequence:
            return 0
        latest_ns = self._store.records.arrival_ns(shard, shard.last_sequence)
        return (latest_ns - last.arrival_ns) // _MILLISECOND_NS

    def _shard(self, call: FunctionCall) -> Node:
        """Return the shard without records that are too old. ApiError where no record has made it yet."""
        # A shard is a number in its stream: names that are spelled otherwise, as 01, are none.
        stream = stream_at(self._store, call.address.parent)
        name = call.address.name
        if not (name.isascii() and name.isdecimal() and str(int(name[:9])) == name):
            raise invalid_argument(f"{name[:40]!r} is no shard's number")
        if int(name) >= stream.shard_count:
            raise shard_id_out_of_range(int(name), stream.shard_count)
        shard = self._store.nodes.existing(call.address)
        if shard.kind != NodeKind.SHARD:
            raise invalid_argument(f"what is at {shard.path} is no shard")
        return self._store.records.without_expired(shard, stream.retention_hours)

    def _by_time(self, call: FunctionCall, shard: Node) -> int:
        seconds = call.whole("TimestampSec", 0, _MAX_NUMBER // NANOSECONDS - 1)
        rest = call.whole("TimestampNSec", 0, NANOSECONDS - 1, 0)
        return self._store.records.first_since(shard, seconds * NANOSECONDS + rest)


def _by_sequence(call: FunctionCall, shard: Node) -> int:
    """Return the sequence number asked for; one above the last is the end, where a full reader goes on."""
    requested = call.whole("StartingSequenceNumber", 0, _MAX_NUMBER)
    if requested > shard.last_sequence + 1:
        raise invalid_argument(f"StartingSequenceNumber {requested} is above the last, {shard.last_sequence}")
    if requested < shard.first_sequence:
        raise illegal_location(f"record {requested} is no more: the oldest is {shard.first_sequence}")
    return requested


def _location(shard: Node, sequence: int) -> str:
    return base64.b64encode(_LOCATION.pack(shard.inode, sequence)).decode()


def _sequence_at(location: str, shard: Node) -> int:
    try:
        inode, sequence = _LOCATION.unpack(base64.b64decode(location, validate=True))
    except (ValueError, struct.error) as error:
        raise illegal_location("it is none that seeking or reading gave") from error
    # A location is for one shard, and not for another that was made under its name.
    if inode != shard.inode or not shard.first_sequence <= sequence <= shard.last_sequence + 1:
        raise illegal_location(f"seek anew: shard {shard.name} has nothing there, not or no more")
    return int(sequence)


def _shown_records(records: Iterable[StoredRecord]) -> tuple[list[dict[str, Any]], StoredRecord | None]:
    """Return as many records as an answer may hold, as they travel, and the last of them."""
    shown, size, last = [], 0, None
    for record in records:
        fields = _fields(record)
        # Rows are read one by one, so the limit also bounds what of them is in memory.
        size += len(fields["Data"])
        if size > _MAX_ANSWER_BYTES:
            break
        shown.append(fields)
        last = record
    return shown, last


def _fields(record: StoredRecord) -> dict[str, Any]:
    seconds, rest = divmod(record.arrival_ns, NANOSECONDS)
    fields: dict[str, Any] = {
        "ArrivalTimeSec": seconds,
        "ArrivalTimeNSec": rest,
        "SequenceNumber": record.sequence,
        "Data": base64.b64encode(record.data).decode(),
    }
    if record.client_info is not None:
        fields["ClientInfo"] = base64.b64encode(record.client_info).decode()
    if record.partition_key is not None:
        fields["PartitionKey"] = record.partition_key
    return fields
