"""What a worker process calls its handler with, and how: what waits, one after another, several at once."""
