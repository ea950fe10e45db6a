"""A Spark Connect server on loopback, shared by the functions of a run."""
