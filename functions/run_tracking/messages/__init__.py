"""Clients' items, and the envelopes that carry them through the two topics."""
