"""Triggers that read partitions in a group: the life of an assignment, and its commits."""
