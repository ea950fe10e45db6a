"""The wire between a processor and its workers: frames over a socket, words in memory, the lease."""
