"""The settings of a v3ioStream trigger: its attributes, the rules between them, what follows from them."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.partitions.flow_control import StreamLimits
from headrace.runtime.settings.declare import Rule
from headrace.runtime.streams.settings import ACK_RULES, HEARTBEAT_RULES, ON_FAILURE_RULES
from headrace.runtime.v3io.addresses import V3IO_KEY_VARIABLE, V3IO_VARIABLE, StreamPath
from headrace.triggers.v3io.access import GENERATE, is_access_key, parse_url
from headrace.triggers.v3io.attributes import V3ioAttributes

_PLACE = {"container_name": "containerName", "stream_path": "streamPath", "consumer_group": "consumerGroup"}


def given_place(trigger: TriggerFields) -> list[str]:
    """Return which of the three attributes that name a group's stream the file has."""
    attributes = trigger.attributes if isinstance(trigger.attributes, dict) else {}
    present = {str(key).lower() for key, value in attributes.items() if value}
    return [key for key in _PLACE.values() if key.lower() in present]


def _place_is_whole(settings: V3ioAttributes, trigger: TriggerFields) -> str:
    """is required, with containerName and consumerGroup, unless the url has all three."""
    if settings.container_name.strip("/") and settings.stream_path.strip("/") and settings.consumer_group:
        return ""
    missing = [key for key in _PLACE.values() if key not in given_place(trigger)]
    if len(missing) < len(_PLACE):
        return f"needs {' and '.join(missing)} beside it: the three go together, or all are in the url"
    return (
        "is required, with containerName and consumerGroup; or write them into the trigger's url, as"
        " http://v3io-webapi:8081/CONTAINER/STREAM@GROUP"
    )


def _url_is_one(_settings: V3ioAttributes, trigger: TriggerFields) -> str:
    """the trigger's url names a container, a stream and a group, or none of them."""
    if given_place(trigger):
        return ""
    try:
        parse_url(trigger.url)
    except ValueError as error:
        return f"the trigger's url {error}"
    return ""


def _url_says_less(_settings: V3ioAttributes, trigger: TriggerFields) -> str:
    """a place in the trigger's url has no effect beside the three attributes, which is noticed."""
    try:
        has_place = bool(parse_url(trigger.url).group)
    # A url that can't be parsed has no effect either, and _url_is_one is silent beside the attributes.
    except ValueError:
        has_place = True
    is_idle = has_place and bool(given_place(trigger))
    return (
        "what the trigger's url has after the address has no effect beside the attributes" if is_idle else ""
    )


def _key_counts(_settings: V3ioAttributes, trigger: TriggerFields) -> str:
    """a password, username or secret that doesn't sign in is noticed."""
    password, secret = trigger.password, trigger.secret
    if password == GENERATE:
        return (
            ""
            if V3IO_KEY_VARIABLE in os.environ
            else f"password is {GENERATE}, and {V3IO_KEY_VARIABLE} is empty"
        )
    if is_access_key(password):
        return "secret has no effect beside a password that is an access key" if secret else ""
    if password and not (trigger.username or secret):
        return "password is no access key (a UUID), and has no username beside it: it is not used"
    return "password has no effect beside secret, which is the access key" if password and secret else ""


def _feeds_itself(settings: V3ioAttributes, _trigger: TriggerFields) -> str:
    """must not be the trigger's own stream."""
    name = settings.on_failure.dead_letter_topic.strip("/")
    is_own = bool(name) and name == settings.stream_path.strip("/")
    return f"{name!r} is the trigger's own stream: it would feed itself; name another one" if is_own else ""


RULES = (
    Rule("web_api", ("trigger.url", "trigger.attributes"), _url_is_one),
    Rule("web_api", ("trigger.url", "trigger.attributes"), _url_says_less, is_error=False),
    Rule(
        "web_api",
        ("trigger.password", "trigger.secret", "trigger.username"),
        _key_counts,
        is_error=False,
    ),
    Rule("stream_path", ("container_name", "stream_path", "consumer_group", "trigger.url"), _place_is_whole),
    *HEARTBEAT_RULES,
    *ACK_RULES,
    *ON_FAILURE_RULES,
    Rule("on_failure.dead_letter_topic", ("on_failure.dead_letter_topic", "stream_path"), _feeds_itself),
)
_READS_AHEAD = 4
_SLASHES = re.compile("/+")


class V3ioSettings(V3ioAttributes):
    """The settings of one v3ioStream trigger."""

    rules: ClassVar[tuple[Rule, ...]] = RULES
    # Every member cuts the shards by the number of replicas, so that number may not change with the load.
    has_fixed_replicas: ClassVar[bool] = True
    idle_fields: ClassVar[Mapping[str, str]] = {
        "worker_allocator_name": "is deprecated with v3ioStream, whose triggers have workers of their own",
    }

    @classmethod
    def fallbacks(cls, trigger: Any) -> Mapping[str, object]:
        """Return what the trigger's url says; its stream only where the attributes say no part of one."""
        found: dict[str, object] = (
            {"web_api": os.environ[V3IO_VARIABLE]} if V3IO_VARIABLE in os.environ else {}
        )
        # A url that can't be parsed says nothing here: a rule tells what is wrong with it.
        with suppress(ValueError):
            url = parse_url(trigger.url)
            if trigger.url:
                found["web_api"] = url.web_api
            # The three go together, so that a url and attributes can't name a mix of two groups.
            if url.group and not given_place(trigger):
                found |= {"container_name": url.container, "stream_path": url.stream_path}
                found["consumer_group"] = url.group
        return found

    @property
    def topic(self) -> str:
        """The stream's name in events and acks: its path, as it is written, without a slash at its end."""
        return self.stream_path.rstrip("/")

    @property
    def topic_aliases(self) -> Mapping[str, str]:
        """Other names that acks may have for it; old mlrun's have a slash alone."""
        # An ack may spell the path with or without slashes, and old mlrun's have a slash alone.
        path = self.topic.strip("/")
        names = ("/", path, f"/{path}", f"{path}/", f"/{path}/")
        return {name: self.topic for name in names if name != self.topic}

    @property
    def stream(self) -> StreamPath:
        """The stream that is read."""
        return StreamPath(self.container_name, _path(self.stream_path))

    @property
    def dead_letter_stream(self) -> StreamPath | None:
        """The stream that failed records go to, if any."""
        path = _path(self.on_failure.dead_letter_topic)
        return StreamPath(self.container_name, path) if path else None

    @property
    def limits(self) -> StreamLimits:
        """How many records a replica may hold: some reads of each shard."""
        reads = _READS_AHEAD + self.record_batch_size_chan
        return StreamLimits(self.read_batch_size * reads, 0, "readBatchSize", self.max_buffered_bytes)


def _path(text: str) -> str:
    return _SLASHES.sub("/", text).strip("/")
