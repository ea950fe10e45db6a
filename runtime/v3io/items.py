"""Items: what groups keep in a stream."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.runtime.v3io.client import V3ioClient, V3ioRefusedError, nothing

Attributes = Mapping[str, int | float | str | bytes | bool]


def encode_attributes(attributes: Attributes) -> dict[str, dict[str, Any]]:
    """Return the attributes as PutItem wants them."""
    return {name: _encoded(value) for name, value in attributes.items()}


def decode_attributes(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the attributes of GetItem's answer. Those of no known type are left out."""
    found = {name: _decoded(typed) for name, typed in item.items()}
    return {name: value for name, value in found.items() if value is not None}


def _encoded(value: float | str | bytes | bool) -> dict[str, Any]:
    # Before numbers: to Python a bool is an int.
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bytes):
        return {"B": base64.b64encode(value).decode()}
    return {"N": str(value)}


def _decoded(typed: Mapping[str, Any]) -> Any:
    match dict(typed):
        case {"N": number}:
            # Sequence numbers have up to 64 bits, of which a float would keep 53.
            text = str(number)
            return int(text) if text.lstrip("-").isdecimal() else float(text)
        case {"S": text}:
            return str(text)
        case {"BOOL": flag}:
            return bool(flag)
        case {"B": data}:
            return base64.b64decode(data)
    return None


SHARD = 3
"""`__obj_type` of a shard: a write on the condition that an item has it can't make a file of that name."""


async def get_item(client: V3ioClient, path: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Return the item's attributes of these names, as far as it has them; None where there is no item."""
    body = {"AttributesToGet": ",".join(names)}
    try:
        return await client.read("GetItem", path, body, lambda fields: decode_attributes(fields["Item"]))
    except V3ioRefusedError as refused:
        if refused.is_absent:
            return None
        raise


async def put_attributes(
    client: V3ioClient, path: str, attributes: Attributes, condition: str
) -> V3ioRefusedError | None:
    """Set these attributes of an item under a condition, and keep its others.

    Returns None where they are set, and the refusal where they aren't, mostly as the condition does not hold.
    Other errors are raised; V3ioAwayError: they may have been set.
    """
    body = {
        "Item": encode_attributes(attributes),
        "UpdateMode": "CreateOrReplaceAttributes",
        "ConditionExpression": condition,
    }
    try:
        await client.write("PutItem", path, body, nothing)
    except V3ioRefusedError as refused:
        # Without permission no other try can succeed, so this is no refusal of the condition.
        if refused.is_forbidden:
            raise
        return refused
    return None
