"""What a client is told that its run won't have."""


class TrackerError(Exception):
    """Refused by the server, or not taken by it for too long. One line."""
