"""What a processor and its workers share: frames over a socket, words in memory, the lease."""
