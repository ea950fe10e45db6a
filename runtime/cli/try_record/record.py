"""The record that is tried: from a file, or from where it lies in Kafka."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import click

from headrace.runtime.cli.records.formats import line_of_json
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.errors import UsageError
from headrace.runtime.kafka import client
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.testing.results import Range, Record

_PLACE = re.compile(r"([A-Za-z0-9._-]{1,249})/([0-9]{1,9})/([0-9]{1,18})")


class RecordCoordinates(NamedTuple):
    """Of a record."""

    topic: str
    partition: int
    offset: int


class RecordParam(click.ParamType[RecordCoordinates]):
    """TOPIC/PARTITION/OFFSET, as in orders/3/17."""

    name = "topic/partition/offset"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> RecordCoordinates:
        found = _PLACE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not TOPIC/PARTITION/OFFSET, as in orders/3/17", param, ctx)
        return RecordCoordinates(found[1], int(found[2]), int(found[3]))


@runtime_checkable
class ReadsKafka(Protocol):
    """The settings of a trigger whose records lie in Kafka."""

    @property
    def access(self) -> BrokerAccess:
        """Where, and how to get in."""


def record_in_file(file: str) -> Record:
    """What `kafka consume --json` prints of one record, or `deadletters list --json`; - is stdin.

    Of a dead letter, the record that it was. Raises UsageError.
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
    said = json.loads(text)
    place = said.get("provenance") or said
    topic, partition, offset = (place.get(name) for name in RecordCoordinates._fields)
    return Record(
        line.value,
        line.key,
        line.headers,
        topic=topic if isinstance(topic, str) else "topic",
        partition=partition if isinstance(partition, int) else 0,
        offset=offset if isinstance(offset, int) else None,
        timestamp_ms=line.timestamp_ms,
    )


def record_at(place: RecordCoordinates, trigger: TriggerSpec, *, is_range: bool) -> Record | Range:
    """Read by the trigger's own way in. Raises HeadraceError."""
    if not isinstance(trigger.settings, ReadsKafka):
        raise UsageError(
            f"--from reads from Kafka, and trigger {trigger.name} is of kind {trigger.kind}: give --record"
        )
    client.quiet_client()
    found = asyncio.run(client.read_record(trigger.settings.access, *place))
    if is_range:  # Spark reads it again
        return Range(place.offset, place.offset, place.topic, place.partition)
    return Record(found.value, found.key, found.headers, *place, timestamp_ms=found.timestamp)
