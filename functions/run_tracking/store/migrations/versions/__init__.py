"""Migration steps. A released step is never changed."""
