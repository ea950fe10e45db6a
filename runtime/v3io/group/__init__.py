"""What a consumer group keeps in a stream, read by commands and kept up by its members."""
