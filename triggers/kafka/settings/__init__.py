"""The attributes of a kafka-cluster trigger, the rules between them, and what clients are told of them."""
