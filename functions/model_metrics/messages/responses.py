"""Which topics carry the responses of models, and of which model."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from headrace.functions.events import Event
from headrace.functions.model_metrics.messages.payload import ContentType, decode

# A namespace is a DNS label of Kubernetes. Core 2 writes `model` before a model's name, its document doesn't,
# and the document ends its pattern with a dot.
_NAMESPACE = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"


_BEHIND_THE_PREFIX = rf"\.(?P<namespace>{_NAMESPACE})\.(?:model\.)?(?P<model>[A-Za-z0-9_-]+)\.outputs\.?"


@dataclass(frozen=True, slots=True)
class Model:
    """As its topic names it. What a response calls its model has a version behind it."""

    namespace: str
    name: str


class ModelTopics:
    """Those of one prefix. Dots in the prefix are dots."""

    def __init__(self, prefix: str) -> None:
        self.pattern = re.escape(prefix) + _BEHIND_THE_PREFIX
        self._matches = re.compile(self.pattern).fullmatch
        self._known: dict[str, Model | None] = {}

    def model_of(self, topic: str) -> Model | None:
        """None where the topic is not one of a model's outputs."""
        if topic not in self._known:
            found = self._matches(topic)
            self._known[topic] = Model(found["namespace"], found["model"]) if found else None
        return self._known[topic]


_PIPELINE = "pipeline"


_REQUEST_ID = "x-request-id"


class Ignored(StrEnum):
    """Why there is no row. The offset moves on, and each is counted."""

    TOPIC = "topic"
    """Not the outputs of a model."""
    NO_PIPELINE = "no_pipeline"
    EMPTY_PIPELINE = "empty_pipeline"
    BAD_PIPELINE = "bad_pipeline"
    """Not UTF-8, or with a zero byte, which no text of PostgreSQL holds."""
    NO_KEY = "no_key"
    """Or an empty one."""
    BAD_KEY = "bad_key"
    NO_TIMESTAMP = "no_timestamp"
    NO_VALUE = "no_value"
    """A tombstone."""
    BAD_FEEDBACK = "bad_feedback"
    """Not the JSON that feedback.py reads."""


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """One inference response, named as the columns of its table."""

    namespace: str
    model_name: str
    model_version: str | None
    pipeline_name: str
    inference_response_id: str
    """The message's key, as it is. Not unique."""
    request_id: str | None
    """Of the header x-request-id; else the end of a key `partition.pipeline.id`, as Core 2 writes them."""
    response_timestamp: datetime
    """The message's own, UTC, to the millisecond."""
    content_type: ContentType
    payload: bytes
    """As received."""
    payload_json: str | None
    topic: str
    partition: int
    offset: int


def extract_response(event: Event, topics: ModelTopics) -> ResponseRow | Ignored:
    """Pure. Never raises for what a producer may have written."""
    if (model := topics.model_of(event.topic)) is None:
        return Ignored.TOPIC
    headers = _Headers.of(event)
    if isinstance(pipeline := _pipeline(headers), Ignored):
        return pipeline
    if isinstance(key := _key(event), Ignored):
        return key
    if event.timestamp is None:
        return Ignored.NO_TIMESTAMP
    if event.body is None:
        return Ignored.NO_VALUE
    decoded = decode(event.body)
    return ResponseRow(
        namespace=model.namespace,
        model_name=model.name,
        model_version=decoded.model_version,
        pipeline_name=pipeline,
        inference_response_id=key,
        request_id=_text(headers.request_id) or _tail(key, pipeline),
        response_timestamp=event.timestamp.replace(tzinfo=UTC),
        content_type=decoded.content_type,
        payload=event.body,
        payload_json=decoded.text,
        topic=event.topic,
        partition=event.shard_id,
        offset=event.offset,
    )


class _Headers(NamedTuple):
    has_pipeline: bool
    pipeline: bytes | None
    request_id: bytes | None

    @staticmethod
    def of(event: Event) -> "_Headers":
        """The last of each name: Core 2 adds a `pipeline` for each step, and replaces none."""
        found = {name: value for name, value in event.header_list if name in (_PIPELINE, _REQUEST_ID)}
        return _Headers(_PIPELINE in found, found.get(_PIPELINE), found.get(_REQUEST_ID))


def _pipeline(headers: _Headers) -> str | Ignored:
    if not headers.has_pipeline:
        return Ignored.NO_PIPELINE
    if not headers.pipeline:
        return Ignored.EMPTY_PIPELINE
    return _text(headers.pipeline) or Ignored.BAD_PIPELINE


def _key(event: Event) -> str | Ignored:
    if not event.key:
        return Ignored.NO_KEY
    return _text(event.key) or Ignored.BAD_KEY


def _text(data: bytes | None) -> str | None:
    """None where no database could hold it as text."""
    if not data or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _tail(key: str, pipeline: str) -> str | None:
    """The request's id in a composite key. Pipelines and ids may have dots themselves."""
    partition, _, rest = key.partition(".")
    is_composite = partition.isdecimal() and rest.startswith(f"{pipeline}.")
    return rest[len(pipeline) + 1 :] or None if is_composite else None
