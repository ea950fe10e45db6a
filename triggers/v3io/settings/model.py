"""A v3ioStream trigger's settings: its attributes, what follows from them, and the rules between them."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from headrace.runtime.settings.declare import Rule
from headrace.runtime.streams.limits import StreamLimits
from headrace.runtime.v3io.addresses import V3IO_VARIABLE
from headrace.runtime.v3io.place import StreamPath
from headrace.triggers.v3io.settings.attributes import V3ioAttributes
from headrace.triggers.v3io.settings.rules import RULES, given_place
from headrace.triggers.v3io.settings.url import parse_url

_READS_AHEAD = 4
_SLASHES = re.compile("/+")


class V3ioSettings(V3ioAttributes):
    """What a v3ioStream trigger goes by."""

    rules: ClassVar[tuple[Rule, ...]] = RULES
    has_fixed_replicas: ClassVar[bool] = True
    idle_fields: ClassVar[Mapping[str, str]] = {
        "worker_allocator_name": "is deprecated with v3ioStream, whose triggers have workers of their own",
    }

    @classmethod
    def fallbacks(cls, trigger: Any) -> Mapping[str, object]:
        """Of the trigger's url. Where the attributes say one part of the place, they have to say all."""
        found: dict[str, object] = (
            {"web_api": os.environ[V3IO_VARIABLE]} if V3IO_VARIABLE in os.environ else {}
        )
        with suppress(ValueError):  # a rule says what is wrong with it
            url = parse_url(trigger.url)
            if trigger.url:
                found["web_api"] = url.web_api
            if url.group and not given_place(trigger):
                found |= {"container_name": url.container, "stream_path": url.stream_path}
                found["consumer_group"] = url.group
        return found

    @property
    def topic(self) -> str:
        """What events and acks call the stream: its path, as it is written, without a slash at its end."""
        return self.stream_path.rstrip("/")

    @property
    def topic_aliases(self) -> Mapping[str, str]:
        """Other names that acks may have for it; old mlrun's have a slash alone."""
        path = self.topic.strip("/")
        names = ("/", path, f"/{path}", f"{path}/", f"/{path}/")
        return {name: self.topic for name in names if name != self.topic}

    @property
    def place(self) -> StreamPath:
        """The stream."""
        return StreamPath(self.container_name, _path(self.stream_path))

    @property
    def dead_letter_place(self) -> StreamPath | None:
        """Where failed records go, if anywhere."""
        path = _path(self.on_failure.dead_letter_topic)
        return StreamPath(self.container_name, path) if path else None

    @property
    def limits(self) -> StreamLimits:
        """How much is held: some reads of each shard."""
        reads = _READS_AHEAD + self.record_batch_size_chan
        return StreamLimits(self.read_batch_size * reads, 0, "readBatchSize", self.max_buffered_bytes)


def _path(text: str) -> str:
    return _SLASHES.sub("/", text).strip("/")
