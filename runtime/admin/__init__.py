"""The HTTP server on which a run shows its status, and where halted partitions are moved on."""
