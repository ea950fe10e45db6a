"""Explicit acks: from any worker of a function to the trigger that has the partition, accepted or refused."""
