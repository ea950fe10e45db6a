"""Apache Kafka on loopback."""
