"""Inference responses of Seldon Core 2: the topics that carry them, and their rows."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from headrace.functions.events import Event
from headrace.functions.model_metrics.messages.payload import ContentType, decode

# A namespace is a DNS label of Kubernetes. Core 2 puts `model` before a model's name; its documentation
# doesn't, and ends the pattern with a dot.
_NAMESPACE = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_BEHIND_THE_PREFIX = rf"\.(?P<namespace>{_NAMESPACE})\.(?:model\.)?(?P<model>[A-Za-z0-9_-]+)\.outputs\.?"
_PIPELINE = "pipeline"
_REQUEST_ID = "x-request-id"


@dataclass(frozen=True, slots=True)
class Model:
    """A model as its topic names it. A response's own `model_name` has a version appended."""

    namespace: str
    name: str


class ModelTopics:
    """The topics of models' outputs under one prefix. The prefix is literal text, its dots too."""

    def __init__(self, prefix: str) -> None:
        self.pattern = re.escape(prefix) + _BEHIND_THE_PREFIX
        self._matches = re.compile(self.pattern).fullmatch
        self._known: dict[str, Model | None] = {}

    def model_of(self, topic: str) -> Model | None:
        """Return the model whose outputs `topic` carries; None for any other topic."""
        # A match for each message would cost; a function reads few topics.
        if topic not in self._known:
            found = self._matches(topic)
            self._known[topic] = Model(found["namespace"], found["model"]) if found else None
        return self._known[topic]


class Ignored(StrEnum):
    """Reason why a message has no row. Each is counted, and the offset is committed."""

    TOPIC = "topic"
    """The topic isn't that of a model's outputs."""
    NO_PIPELINE = "no_pipeline"
    EMPTY_PIPELINE = "empty_pipeline"
    BAD_PIPELINE = "bad_pipeline"
    """The header isn't UTF-8, or has a zero byte, which PostgreSQL's text can't hold."""
    NO_KEY = "no_key"
    """The key is missing or empty."""
    BAD_KEY = "bad_key"
    NO_TIMESTAMP = "no_timestamp"
    NO_VALUE = "no_value"
    """The message is a tombstone."""
    BAD_FEEDBACK = "bad_feedback"
    """The message isn't the JSON that feedback.py reads."""


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """An inference response. Fields are named as the table's columns."""

    namespace: str
    model_name: str
    model_version: str | None
    pipeline_name: str
    inference_response_id: str
    """The message's key. Not unique."""
    request_id: str | None
    """The header x-request-id; else the end of a key `partition.pipeline.id`, Core 2's composite key."""
    response_timestamp: datetime
    """The message's timestamp in UTC, to the millisecond."""
    content_type: ContentType
    payload: bytes
    """The message's value, unchanged."""
    payload_json: str | None
    topic: str
    partition: int
    offset: int


def extract_response(event: Event, topics: ModelTopics) -> ResponseRow | Ignored:
    """Parse a message of a model's topic, or return why it is ignored. Never raises for its content."""
    # topicPattern of function.yaml is looser than the names of models, so other topics come here too.
    if (model := topics.model_of(event.topic)) is None:
        return Ignored.TOPIC
    headers = _Headers.of(event)
    if isinstance(pipeline := _pipeline(headers), Ignored):
        return pipeline
    if isinstance(key := _key(event), Ignored):
        return key
    if event.timestamp is None:
        return Ignored.NO_TIMESTAMP
    # An empty value is a response that can't be decoded, and is stored; only a tombstone is none.
    if event.body is None:
        return Ignored.NO_VALUE
    decoded = decode(event.body)
    return ResponseRow(
        namespace=model.namespace,
        model_name=model.name,
        model_version=decoded.model_version,
        pipeline_name=pipeline,
        inference_response_id=key,
        # A header that is no text doesn't cost the row: the key may have the id as well.
        request_id=_text(headers.request_id) or _composite_key_id(key, pipeline),
        # Events have naive times in UTC.
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
        """Return the last header of each name: Core 2 appends a `pipeline` for each step."""
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
    """Return `data` as text; None if it is empty or no database could hold it as text."""
    # A zero byte is valid UTF-8, but PostgreSQL's text can't hold it.
    if not data or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _composite_key_id(key: str, pipeline: str) -> str | None:
    """Return the request's id at the end of a composite key. Pipelines and ids may contain dots."""
    partition, _, rest = key.partition(".")
    is_composite = partition.isdecimal() and rest.startswith(f"{pipeline}.")
    return rest[len(pipeline) + 1 :] or None if is_composite else None
