"""The clients' server: a WebSocket for each run, and signed uploads of artifacts."""
