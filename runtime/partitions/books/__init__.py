"""What is settled of a partition, what failed of it, and what is held back from its commits."""
