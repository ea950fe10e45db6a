"""What a v3io server keeps: nodes and records, in one SQLite file."""
