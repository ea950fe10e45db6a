"""Hands on any v3io stream, for commands and triggers: a small client, and what groups keep there."""
