"""Where the bytes of artifacts are: a folder, or a store that speaks S3."""
