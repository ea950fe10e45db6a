"""Spark Connect from a client's side: where it is, how a session is ended from outside."""
