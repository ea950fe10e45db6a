"""Memory that a processor shares with a worker: what runs there, and what it has acked."""
