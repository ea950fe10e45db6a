"""The attributes of a kafka-cluster trigger, and what clients are told of them."""
