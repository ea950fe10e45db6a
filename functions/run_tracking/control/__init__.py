"""Effects of control events outside of the database: a deleted run's blobs are deleted."""
