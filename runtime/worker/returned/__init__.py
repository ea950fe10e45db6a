"""What a handler has returned: whether that says that it failed, and the answer that it is."""
