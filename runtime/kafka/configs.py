"""What topics and brokers are set to, as a broker says it."""

from collections.abc import Mapping
from typing import Any, Literal

ResourceKind = Literal["topic", "broker"]


async def read_config(admin: Any, kind: ResourceKind, name: str) -> Mapping[str, str]:
    """All settings of a topic, or of the broker of that id, defaults too; secret ones are left out.

    Raises KafkaError, TopicAuthorizationFailedError and ClusterAuthorizationFailedError where this user may
    not ask.
    """
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.errors import for_code

    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType[kind.upper()], name)])
    code, message, _, _, entries = answer.resources[0]
    if code:
        raise for_code(code)(message)
    return {entry[0]: entry[1] for entry in entries if entry[1] is not None}
