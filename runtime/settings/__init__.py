"""How a setting is declared, read from a file, checked and shown. Knows nothing of functions or Kafka."""
