"""Source of the record that is tried: a file, or its place in Kafka."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from headrace.runtime.cli.records.formats import line_of_json
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.errors import UsageError
from headrace.runtime.kafka import client
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.names import TOPIC_NAME_PATTERN
from headrace.runtime.testing.results import Range, Record

_PLACE = re.compile(rf"({TOPIC_NAME_PATTERN})/([0-9]{{1,9}})/([0-9]{{1,18}})")


class RecordCoordinates(NamedTuple):
    """Topic, partition and offset of a record."""

    topic: str
    partition: int
    offset: int


class RecordParam(click.ParamType[RecordCoordinates]):
    """Parameter TOPIC/PARTITION/OFFSET, as in orders/3/17."""

    name = "topic/partition/offset"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> RecordCoordinates:
        found = _PLACE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not TOPIC/PARTITION/OFFSET, as in orders/3/17", param, ctx)
        return RecordCoordinates(found[1], int(found[2]), int(found[3]))


def record_in_file(file: str) -> Record:
    """Read one record as `kafka consume --json` or `deadletters list --json` prints it; - is stdin.

    For a dead letter it is the record that failed. Raises UsageError.
    """
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        line = line_of_json(text)
    except OSError as error:
        raise UsageError(f"--record {file!r} can't be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(
            f"--record {file!r} doesn't hold one record as `headrace kafka consume --json` prints it"
        ) from None
    fields = json.loads(text)
    # A dead letter says where the record lay that failed.
    source = fields.get("provenance") or fields
    topic, partition, offset = (source.get(name) for name in RecordCoordinates._fields)
    return Record(
        line.value,
        line.key,
        line.headers,
        # A line that was written by hand may name no place, and the handler's event has one.
        topic=topic if isinstance(topic, str) else "topic",
        partition=partition if isinstance(partition, int) else 0,
        offset=offset if isinstance(offset, int) else None,
        timestamp_ms=line.timestamp_ms,
    )


def record_at(place: RecordCoordinates, trigger: TriggerSpec, *, is_range: bool) -> Record | Range:
    """Read a record from Kafka with the trigger's own brokers and sign-in. Raises HeadraceError."""
    # Only its kind knows the model of a trigger's settings: those of Kafka have the way in to the brokers.
    access = getattr(trigger.settings, "access", None)
    if not isinstance(access, BrokerAccess):
        raise UsageError(
            f"--from reads from Kafka, and trigger {trigger.name} is of kind {trigger.kind}: give --record"
        )
    client.quiet_client()
    found = asyncio.run(client.read_record(access, *place))
    if is_range:  # Spark reads it again
        return Range(place.offset, place.offset, place.topic, place.partition)
    return Record(found.value, found.key, found.headers, *place, timestamp_ms=found.timestamp)
