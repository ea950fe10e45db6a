"""Connections to brokers: who is a stranger there, and what of an answer can't be read."""
