"""What a v3io server is asked over HTTP, and what it answers."""
