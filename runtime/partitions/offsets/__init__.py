"""Offsets of one partition: which are settled, which failed, which are planned, what its commits say."""
