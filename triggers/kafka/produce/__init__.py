"""Messages of handlers, on their way to Kafka: alone, or in one transaction with a commit."""
