"""Parsing of messages into rows: pure, without Kafka and without a database."""
