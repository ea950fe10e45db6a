"""Choice of the blob store by the setting BLOBS."""

from pathlib import Path

from headrace.functions.run_tracking.blobs.folder import FolderStore
from headrace.functions.run_tracking.blobs.store import BlobStore
from headrace.functions.run_tracking.settings import Settings, SettingsError


def open_store(settings: Settings) -> BlobStore:
    """Open the store. Raises SettingsError for an invalid BLOBS, BlobError if it can't be reached."""
    kind, colon, rest = settings.blobs.partition("://")
    if not colon:
        return FolderStore(Path(settings.blobs), settings.frontier_url, settings.blob_bounds)
    bucket, _, prefix = rest.partition("/")
    if kind != "s3" or not bucket:
        raise SettingsError(f"BLOBS is {settings.blobs!r}: expected a folder, or s3://BUCKET/PREFIX")
    try:
        # Imported for a bucket only: boto3 takes time to load, and a folder doesn't need it.
        from headrace.functions.run_tracking.blobs.s3 import S3Store
    except ImportError:
        raise SettingsError(
            "BLOBS names a bucket, which needs boto3: pip install 'headrace[tracking]'"
        ) from None
    below = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    return S3Store(bucket, below, settings.blob_bounds.file_bytes)
