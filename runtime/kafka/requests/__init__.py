"""Requests to a broker that aiokafka doesn't know."""
