"""Hands on any Kafka broker, for commands and triggers: topics, groups, dead letters."""
