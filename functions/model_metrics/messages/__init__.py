"""What a message of a model's topic says: pure, without Kafka and without a database."""
