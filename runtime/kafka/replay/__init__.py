"""Dead letters on their way back to the topics that they came from."""
