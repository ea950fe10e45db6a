"""Iguazio's v3io web API on loopback: a server of our own, for streams, items and objects."""
