"""The kafka-cluster trigger."""
