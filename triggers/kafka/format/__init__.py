"""Kafka's record batches, byte by byte: for workers too, so nothing else of the trigger's."""
