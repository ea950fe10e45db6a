"""What handlers produce, on its way to Kafka: alone, or in one transaction with a commit."""
