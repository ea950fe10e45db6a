"""Client that logs runs: for tests, for a first try, and as an example."""
