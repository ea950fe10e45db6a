"""What a v3ioStream trigger can be told: its attributes, and the rules between them."""
