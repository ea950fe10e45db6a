"""`headrace try`: one record through a handler, here and now."""
