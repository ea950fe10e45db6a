"""Spark Connect from a client's side: a server's address and token, and how sessions are ended."""
