"""nuclio_sdk's classes, with types.

It has none itself, and a subclass of an untyped class may have any attribute.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class TriggerInfo:
        """Kind and name of the trigger that an event comes from."""

        kind: str
        name: str

        def __init__(self, kind: str = "", name: str = "") -> None: ...

    class Event:
        """The SDK's event, which a StreamEvent inherits."""

        def get_header(self, header_key: str) -> bytes | None:
            """Return a header by its name, in whatever case."""

        def compile_explicit_ack_message(self) -> dict[str, Any]: ...

    class QualifiedOffset:
        """Topic, partition and offset that an explicit ack names."""

        topic: str
        partition: int
        offset: int
        source_log: str | None  # see record_id.py

        def __init__(self, topic: str, partition: int, offset: int) -> None: ...
        @staticmethod
        def from_event(event: Event) -> "QualifiedOffset":
            """Return the offset of the record that a handler has."""

    class Response:
        """A response that a handler returns. A status of 500 or more is a failure.

        In a batch each response needs the `event_id` of its event.
        """

        headers: dict[str, Any]
        body: Any
        status_code: int
        content_type: str
        event_id: str | None

        def __init__(
            self,
            headers: dict[str, Any] | None = None,
            body: Any = None,
            content_type: str | None = None,
            status_code: int = 200,
            event_id: str | None = None,
        ) -> None: ...
        def ensure_no_ack(self) -> None:
            """Leave the record open, with explicitAckMode enable."""

    class Logger:
        """Messages are %-formats of their arguments; `*_with` take named values beside them."""

        def __init__(self, level: int, name: str = "nuclio_sdk") -> None: ...
        def debug(self, message: object, *args: object) -> None: ...
        def info(self, message: object, *args: object) -> None: ...
        def warn(self, message: object, *args: object) -> None: ...
        def error(self, message: object, *args: object) -> None: ...
        def debug_with(self, message: object, *args: object, **kw_args: Any) -> None: ...
        def info_with(self, message: object, *args: object, **kw_args: Any) -> None: ...
        def warn_with(self, message: object, *args: object, **kw_args: Any) -> None: ...
        def error_with(self, message: object, *args: object, **kw_args: Any) -> None: ...
        def bind(self, **kw_args: Any) -> None:
            """Add values that all later lines have."""

    class Platform:
        """The SDK's platform, which a worker's Platform inherits."""

        kind: str
        namespace: str
        _drain_callback: Callable[[], Any] | None
        _termination_callback: Callable[[], Any] | None

        def __init__(self, kind: str, namespace: str = "default") -> None: ...
        def set_drain_callback(self, callback: Callable[[], Any]) -> None:
            """Have `callback` called, without arguments, when partitions leave."""

        def set_termination_callback(self, callback: Callable[[], Any]) -> None:
            """Have `callback` called, without arguments, when the replica stops."""

        def _get_function_url(self, function_name: str, service_name_override: str | None = None) -> str:
            """Return the address of a function as `host:port`."""

    class Context:
        """The SDK's context, which a worker's Context inherits."""

        def __init__(
            self, logger: Logger, platform: Platform, worker_id: str, trigger: TriggerInfo
        ) -> None: ...

else:
    from nuclio_sdk import Context, Event, Logger, Platform, QualifiedOffset, Response, TriggerInfo

__all__ = ["Context", "Event", "Logger", "Platform", "QualifiedOffset", "Response", "TriggerInfo"]
