"""Storage of artifacts' bytes: a folder, or a bucket with the S3 API."""
