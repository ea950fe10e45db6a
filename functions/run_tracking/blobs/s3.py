"""Blob store in a bucket with the S3 API. Endpoint and credentials come from boto3's own variables."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from headrace.functions.run_tracking.blobs.signatures import VALID_SECONDS
from headrace.functions.run_tracking.blobs.store import MOST_BYTES, BlobError, Upload, check_size
from headrace.functions.run_tracking.messages.validation import check_blob_key, is_blob_key

_MOST_AT_ONCE = 1000
_PART_BYTES = 1024 * 1024
_MISSING = frozenset({"NoSuchKey", "404", "NotFound"})
# Requests of clients wait for these: they fail soon instead of being retried for long.
_QUICK = Config(
    signature_version="s3v4",
    connect_timeout=5,
    read_timeout=30,
    retries={"max_attempts": 2, "mode": "standard"},
)


class S3Store:
    """Blob store in a bucket. Clients upload to the bucket itself, at presigned addresses."""

    def __init__(self, bucket: str, prefix: str, most_bytes: int = MOST_BYTES) -> None:
        """`prefix` is put before all keys; it is empty or ends with a slash. `most_bytes` limits one blob."""
        self._bucket, self._prefix, self._most_bytes = bucket, prefix, most_bytes
        with _as_blob_error():
            # boto3 reads its variables and files here: AWS_PROFILE may name a profile that isn't there.
            self._client: Any = boto3.client("s3", config=_QUICK)

    def upload(self, key: str, content_type: str, size_bytes: int | None = None) -> Upload:
        """Presign an address. A known size is signed; for an unknown one only S3's own limit (5 GiB) holds.

        Raises ValueError, TooLargeError, BlobError.
        """
        check_blob_key(key)
        check_size(size_bytes, self._most_bytes)
        size = {} if size_bytes is None else {"ContentLength": size_bytes}
        parameters = {"Bucket": self._bucket, "Key": self._prefix + key, "ContentType": content_type, **size}
        with _as_blob_error():
            url = self._client.generate_presigned_url("put_object", parameters, VALID_SECONDS)
        return Upload(url, {"Content-Type": content_type})

    def read(self, key: str) -> Iterator[bytes] | None:
        """Yield the blob in parts; None if there is none. Raises BlobError."""
        if not is_blob_key(key):
            return None
        try:
            found = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return None
            raise BlobError(_said_by(error)) from None
        except BotoCoreError as error:
            raise BlobError(_said_by(error)) from None
        parts: Iterator[bytes] = found["Body"].iter_chunks(_PART_BYTES)
        return parts

    def delete(self, keys: Iterable[str]) -> None:
        """Delete blobs, 1,000 with each request. Raises BlobError."""
        keys = list(keys)
        for key in keys:
            check_blob_key(key)
        # Only now: with an invalid key among them none is deleted.
        self._delete(self._prefix + key for key in keys)

    def delete_below(self, prefix: str) -> None:
        """Delete all blobs whose keys begin with `prefix`. Raises BlobError."""
        check_blob_key(f"{prefix}all")
        with _as_blob_error():
            pages = self._client.get_paginator("list_objects_v2")
            found = pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix)
            self._delete(it["Key"] for page in found for it in page.get("Contents", ()))

    def _delete(self, keys: Iterable[str]) -> None:
        keys = iter(keys)
        # S3 deletes at most 1,000 keys with one request.
        while some := list(islice(keys, _MOST_AT_ONCE)):
            with _as_blob_error():
                objects = {"Objects": [{"Key": key} for key in some], "Quiet": True}
                reply = self._client.delete_objects(Bucket=self._bucket, Delete=objects)
            # A reply of status 200 may name keys that weren't deleted. The first is enough: the control event
            # is retried as a whole.
            for error in reply.get("Errors", ()):
                raise BlobError(f"{error.get('Key')}: {error.get('Message') or error.get('Code')}")


@contextmanager
def _as_blob_error() -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise BlobError(_said_by(error)) from None


def _said_by(error: Exception) -> str:
    return f"the store of blobs: {' '.join(str(error).split())}"
