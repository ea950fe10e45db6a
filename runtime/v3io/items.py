"""Items: what groups keep in a stream."""

from collections.abc import Sequence
from typing import Any

from headrace.runtime.v3io.client import V3ioClient, nothing
from headrace.runtime.v3io.errors import V3ioRefusedError
from headrace.runtime.v3io.values import Attributes, decode_attributes, encode_attributes

SHARD = 3
"""`__obj_type` of a shard: what is written under that condition doesn't make one."""


async def get_item(client: V3ioClient, path: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Its attributes of these names, as far as it has them; None where there is no such item."""
    body = {"AttributesToGet": ",".join(names)}
    try:
        return await client.read("GetItem", path, body, lambda said: decode_attributes(said["Item"]))
    except V3ioRefusedError as refused:
        if refused.is_absent:
            return None
        raise


async def put_attributes(
    client: V3ioClient, path: str, attributes: Attributes, condition: str
) -> V3ioRefusedError | None:
    """Set these, and keep its others. None: done. An error: it wasn't, mostly as the condition does not hold.

    Other errors are raised; V3ioAwayError: it may have been done.
    """
    body = {
        "Item": encode_attributes(attributes),
        "UpdateMode": "CreateOrReplaceAttributes",
        "ConditionExpression": condition,
    }
    try:
        await client.write("PutItem", path, body, nothing)
    except V3ioRefusedError as refused:
        if refused.is_forbidden:
            raise
        return refused
    return None
