"""What clients talk to: a WebSocket for each run, and addresses to which artifacts go."""
